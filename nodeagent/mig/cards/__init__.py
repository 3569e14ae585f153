"""The node's cards as the MIG manager sees them, and which of them can be partitioned now. Pure."""
