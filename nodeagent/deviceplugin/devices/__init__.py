"""A pool's devices on one node: offered to kubelet, preferred, allocated, written to GPUDevice statuses. Pure."""
