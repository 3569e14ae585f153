"""`make bench`: the budgets (docs/dev/design.md, Budgets), measured on a real control plane on this machine.

`stats`, `rows`, `fleet` and `reviews` are pure; `floor` is the raw client that everything is
compared with; `coldstart`, `admission` and `latency` measure one theme each, on a control
plane of their own; `run` puts them together. How to read the figures: docs/dev/benchmarks.md.
"""
