"""Plans for one GPUDriver: its revisions, status, finalizer and DaemonSets. Pure."""
