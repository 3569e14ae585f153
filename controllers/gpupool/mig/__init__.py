"""MIG layouts of nodes: which card is to be partitioned how, and how far the nodes are with it. Pure."""
