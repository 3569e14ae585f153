"""Tests of gpupool-controller: its planners, its laws, its process on a real control plane."""
