"""gpu-inventory-controller: Nodes and NodeFeatures become GPUDevices and GPUNodeInventories."""
