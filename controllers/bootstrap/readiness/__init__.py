"""Whether a node's cards may be in pools: ReadyForPooling of a GPUNodeInventory, the gates of components, and why."""
