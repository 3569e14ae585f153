"""nodeagent mps: MPS control daemons of one pool's cards on one node, one for each card.

It asks no API server. The pool's device plugin writes down what is wanted of each card, and reads what has come of it:
`nodeagent.host.mpsfiles`. So daemons go on while the control plane is away, and the privileged pod needs no token.
"""
