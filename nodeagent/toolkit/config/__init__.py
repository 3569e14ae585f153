"""containerd's configuration: the files it reads, and the least change that adds NVIDIA's handlers. Pure."""
