"""Reservations on GPUDevices on their way to the API server, and those whose pods have not appeared."""
