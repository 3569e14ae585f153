"""What `kubectl gpu` says, computed from what was read. Pure."""
