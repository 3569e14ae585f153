"""gpupool-controller: cards in pools, their operands, capacity, and the end of reservations.

`loops` has a controller for each kind of key, each `observe → plan → execute`: pools (`pool`, `membership`, `mig`),
nodes (`node`), cards and pending pods (`queue`). The planners are pure: they read `views`, which `world` cuts from
`caches`.
"""
