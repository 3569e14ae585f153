"""The webhook's own certificates: how they are made, and when the next one is due. Pure."""
