"""The queue of a GPUPool: which pods wait for its cards, in which order, and which of them fit now. Pure.

The order is a function of pods, pool and cards, and no position is ever written: gpupool-controller and
`kubectl gpu` compute it here.
"""
