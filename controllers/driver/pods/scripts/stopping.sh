# Before the container is told to end: nobody may begin with this driver any more. A container that holds keeps the
# mark: the next one is to hold as well, for as long as the modules are in use.
rm -f /run/nvidia/validations/.driver-ctr-ready /run/nvidia/validations/.driver-daemons-status
test -e /run/nvidia/gpu-control-plane/hold || rm -f /run/nvidia/gpu-control-plane/driver.state
