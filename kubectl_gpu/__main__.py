"""`python -m kubectl_gpu` is `kubectl gpu`."""

from __future__ import annotations

from kubectl_gpu.main import run

run()
