"""The console: what `kubectl gpu` says, as pages in a browser, for one person or in the cluster."""
