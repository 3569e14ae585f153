"""What node agents and NFD report of a node's cards, merged into one list of discovered cards. Pure."""
