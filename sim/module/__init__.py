"""The module on a simulated cluster: its chart applied, its processes under their own identities."""
