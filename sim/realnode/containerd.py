"""containerd's configuration, as text; no I/O.

What it may not do on a machine without systemd, AppArmor and huge pages is switched off. Handlers `nvidia` and
`nvidia-cdi` are runc like any other: they are there because the module's RuntimeClasses name them, and what gives a
container its cards is CDI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sim.realnode.image import PAUSE

if TYPE_CHECKING:
    from pathlib import Path

    from sim.realnode.places import Places

HANDLERS: Final = ("runc", "nvidia", "nvidia-cdi")
_CRI: Final = 'plugins."io.containerd.grpc.v1.cri"'


def config(places: Places, cni_plugins: Path, *, cdi: bool = True) -> str:
    """The configuration, of version 2, which containerd 1.6, 1.7 and 2 read; `cdi` where it is not 1.6."""
    with_cdi = f'  enable_cdi = true\n  cdi_spec_dirs = ["{places.cdi}"]\n' if cdi else ""
    runtimes = "".join(
        f'[{_CRI}.containerd.runtimes.{name}]\n  runtime_type = "io.containerd.runc.v2"\n'
        f'[{_CRI}.containerd.runtimes.{name}.options]\n  Root = "{places.containerd / "runc"}"\n'
        for name in HANDLERS
    )
    return f"""version = 2
root = "{places.containerd / "root"}"
state = "{places.containerd / "state"}"
[grpc]
  address = "{places.socket}"
[debug]
  address = ""
[metrics]
  address = ""
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[{_CRI}]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
{with_cdi}[{_CRI}.cni]
  bin_dir = "{cni_plugins}"
  conf_dir = "{places.cni}"
[{_CRI}.containerd]
  default_runtime_name = "runc"
{runtimes}"""
