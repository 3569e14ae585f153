"""What a node's files and driver tell: sysfs, procfs, NVML, the toolkit; shared by the roles that read them."""
