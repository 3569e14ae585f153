"""The programs of a control plane: etcd, the Kubernetes four, KWOK and Helm; and ours beside it, `nfd-rule`.

:func:`ensure` returns where they are, making them where needed.
"""

from sim.programs.catalog import PROGRAMS
from sim.programs.progress import Progress, Silent, for_stream
from sim.programs.resolve import ensure

__all__ = ["PROGRAMS", "Progress", "Silent", "ensure", "for_stream"]
