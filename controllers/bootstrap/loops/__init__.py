"""The control loops of gpu-bootstrap-controller: each reconciles one key a time."""
