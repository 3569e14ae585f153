"""The fault campaign: every fault at every place of a workload, judged by invariants on each revision."""
