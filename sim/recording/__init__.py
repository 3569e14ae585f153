"""Writes what the commands of the docs print, typed into a simulated cluster: `python -m sim.recording`."""
