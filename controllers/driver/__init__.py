"""gpu-driver-controller: which driver each node is to have, and how it comes there."""
