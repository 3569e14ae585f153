"""Plans for one node: its driver work, its check pod, the label that brings its driver. Pure."""
