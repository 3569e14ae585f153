"""The contract: custom resources, settings, names and conditions. No I/O, no asyncio.

Every other package imports from here; this package imports nothing of the project.
"""
