// nfd-rule evaluates NodeFeatureRules as nfd-master does, for simulated nodes and for tests.
module gpu-control-plane/sim/nfd

go 1.25.0
