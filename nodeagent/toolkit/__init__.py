"""Role `toolkit`: tells the node's container runtime of NVIDIA's handlers, by the least change that does it.

What decides (`marks`, `effective`, `plan`) is pure; `host` reads, `files` writes and keeps the way back, `cri` asks the
runtime what it runs with, `restart` starts it anew, and `keeper` puts them together.
"""
