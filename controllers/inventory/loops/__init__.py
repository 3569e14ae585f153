"""The control loops of gpu-inventory-controller: each reconciles one key a time."""
