"""The pods of the components that prepare a node, one module for each. Pure."""
