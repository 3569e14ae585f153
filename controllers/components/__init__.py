"""The DaemonSets of the module: how their pods are built, and how they are kept as they are built. Pure."""
