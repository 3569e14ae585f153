"""The controllers (worker loops) of gpupool-controller: what enqueues a key, and what runs a planner for it."""
