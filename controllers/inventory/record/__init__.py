"""The planner of GPUDevice and GPUNodeInventory: one node's reports joined with its records, then the writes. Pure."""
