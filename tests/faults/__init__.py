"""Tests of the fault campaign of `reliability.faults`, and its smoke."""
