"""The plan of a GPUDriver's roll-out: which nodes that have a driver are begun now, and why the others wait. Pure."""
