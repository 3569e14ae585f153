"""What the documentation gets from the code, and from a real cluster: `python -m tools.docs`."""
