"""Our NodeFeatureRule, and the node labels that it is expected to make. Pure."""
