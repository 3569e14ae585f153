"""Records cards: Node and the agent's NodeFeature become GPUDevice and GPUNodeInventory."""
