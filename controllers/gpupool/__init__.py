"""gpupool-controller: cards in pools, their operands, capacity, and the end of reservations.

Three loops, each `observe → plan → execute` over one kind of key: a pool (assignment,
operands, status), a node (pool labels, what waits for a decision), a card (reservations,
the state that people see).
"""
