"""`make soak`: half an hour of churn on a real control plane, and the slopes of what must not grow.

`churn`, `population`, `slopes`, `limits`, `records`, `judge` and `logs` are pure; `hands` does what `churn` plans,
`readings` and `stored` look at the processes and at the API server, `ground` is the cluster, `course` goes through the
cycles, and `run` puts it together. How to read the figures: docs/dev/reliability.md.
"""
