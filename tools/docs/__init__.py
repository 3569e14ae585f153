"""What the documentation gets from the code: `python -m tools.docs`."""
