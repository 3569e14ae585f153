"""Records of a node's cards and driver, and the pure rules by which several sources become one record. Pure."""
