"""Reviews of cards, pools, settings and workloads: what is refused, and what is only told. `answer` is the shell."""
