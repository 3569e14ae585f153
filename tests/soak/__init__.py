"""Tests of the soak of `reliability.soak`: its cycles, its verdicts, its report."""
