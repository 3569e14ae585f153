// payload is what the containers of the end-to-end test run: a program of a few lines, so that an image needs no registry.
module gpu-control-plane/sim/payload

go 1.25.0
