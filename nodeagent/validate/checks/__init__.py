"""The checks of a node's driver and of a container with its cards, their inputs and their report. Pure."""
