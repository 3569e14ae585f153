"""The programs of a control plane: etcd, the Kubernetes four, KWOK and Helm; and ours beside it, `nfd-rule`.

`NODE_PROGRAMS` are those of a real node, kubelet and containerd; `RUNTIME_PROGRAMS` are other container runtimes that
it may have. Only the end-to-end tests start them.

:func:`ensure` returns where they are, making them where needed.
"""

from tools.programs.catalog import NODE_PROGRAMS, PROGRAMS, RUNTIME_PROGRAMS
from tools.programs.progress import Progress, Silent, for_stream
from tools.programs.resolve import ensure

__all__ = ["NODE_PROGRAMS", "PROGRAMS", "RUNTIME_PROGRAMS", "Progress", "Silent", "ensure", "for_stream"]
