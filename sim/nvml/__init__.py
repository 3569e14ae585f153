"""A stand-in for NVIDIA's driver library: a real `libnvidia-ml.so.1` that serves what a text file says."""

from sim.nvml.build import build
from sim.nvml.config import VARIABLE, Config, environment

__all__ = ["VARIABLE", "Config", "build", "environment"]
