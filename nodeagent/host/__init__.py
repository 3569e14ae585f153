"""A node's files and driver: sysfs, procfs, NVML, the container toolkit; shared by the roles that read them."""
