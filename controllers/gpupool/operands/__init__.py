"""A pool's DaemonSets and ConfigMaps: its device plugin and its MIG manager. Pure."""
