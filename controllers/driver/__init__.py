"""gpu-driver-controller: brings drivers onto nodes as GPUDrivers ask for them.

The optional fifth process of the module (setting `driver.enabled`). What is done to a node stands in
`status.driverWork` of its GPUNodeInventory; the node's label `gpu.deckhouse.io/driver.variant` says which driver's
DaemonSet runs there. Nothing else is remembered.
"""
