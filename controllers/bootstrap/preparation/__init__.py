"""What the preparation of a node is made of: components in their order, MIG work, and validations. Pure."""
