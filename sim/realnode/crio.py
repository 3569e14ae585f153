"""CRI-O's configuration, as text; no I/O.

What it may not do on a machine without systemd, AppArmor and huge pages is switched off, and all that it keeps lies in
the node's folder. Handlers `nvidia` and `nvidia-cdi` are runc like any other, as in `containerd.py`.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from sim.realnode.containerd import HANDLERS
from sim.realnode.image import HOST, PAUSE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sim.realnode.places import Places

CONFIG: Final = "crio.conf"
REGISTRIES: Final = "registries.conf"
POLICY: Final = "policy.json"
STORAGE: Final = "storage.conf"
RUNC: Final = "runc"
"""runc behind a script that leaves out what a machine may not do: not everywhere may root make a process safer from the
kernel's OOM killer, nor is a controller for huge pages mounted. containerd has settings for both, CRI-O has none."""
_RUNC: Final = """#!{python} -IS
import json, os, pathlib, sys
if "--bundle" in sys.argv:
    file = pathlib.Path(sys.argv[sys.argv.index("--bundle") + 1]) / "config.json"
    config = json.loads(file.read_text())
    config["process"].pop("oomScoreAdj", None)
    config["linux"].get("resources", {{}}).pop("hugepageLimits", None)
    file.write_text(json.dumps(config))
os.execv("{program}", ["{program}", *sys.argv[1:]])
"""


def files(places: Places, cni_plugins: Path, helpers: Mapping[str, Path], registry: str) -> dict[str, str]:
    """The files of its folder, by name; `helpers`: conmon, pinns and runc; `registry`: where images are."""
    return {
        CONFIG: _config(places, cni_plugins, helpers),
        REGISTRIES: f'[[registry]]\n  prefix = "{HOST}"\n  location = "{registry}"\n  insecure = true\n',
        STORAGE: _storage(places.crio),
        POLICY: json.dumps({"default": [{"type": "insecureAcceptAnything"}]}),
        RUNC: _RUNC.format(python=sys.executable, program=helpers["runc"]),
    }


def command(places: Places, program: Path) -> tuple[str, ...]:
    """CRI-O's command line; with `environment`, no configuration of the machine's own is read."""
    where = places.crio
    registries = (f"--registries-conf={where / REGISTRIES}", f"--registries-conf-dir={where / 'registries.d'}")
    return (str(program), f"--config={where / CONFIG}", "--config-dir=", *registries)


def environment(places: Places) -> dict[str, str]:
    """Variables by which CRI-O's libraries find their files."""
    return {"CONTAINERS_STORAGE_CONF": str(places.crio / STORAGE)}


def _storage(kept: Path) -> str:
    """Where images and containers are: CRI-O's defaults are what this file of its library says."""
    return f"""[storage]
  graphroot = "{kept / "root"}"
  runroot = "{kept / "run"}"
  driver = "vfs"
"""


def _config(places: Places, cni_plugins: Path, helpers: Mapping[str, Path]) -> str:
    kept = places.crio
    runtimes = "".join(
        f'[crio.runtime.runtimes.{name}]\n  runtime_path = "{kept / RUNC}"\n  runtime_root = "{kept / "containers"}"\n'
        f'  runtime_type = "oci"\n  monitor_path = "{helpers["conmon"]}"\n  monitor_cgroup = "pod"\n'
        for name in HANDLERS
    )
    return f"""[crio]
  log_dir = "{kept / "log"}"
  version_file = "{kept / "version"}"
  version_file_persist = "{kept / "version-kept"}"
  clean_shutdown_file = "{kept / "clean"}"
[crio.api]
  listen = "{places.socket}"
  stream_address = "127.0.0.1"
[crio.runtime]
  default_runtime = "{HANDLERS[0]}"
  cgroup_manager = "cgroupfs"
  apparmor_profile = "unconfined"
  disable_hostport_mapping = true
  irqbalance_config_restore_file = "disable"
  pinns_path = "{helpers["pinns"]}"
  namespaces_dir = "{kept / "namespaces"}"
  container_exits_dir = "{kept / "exits"}"
  container_attach_socket_dir = "{kept / "attach"}"
  hooks_dir = []
  cdi_spec_dirs = ["{places.cdi}"]
{runtimes}[crio.image]
  pause_image = "{PAUSE}"
  signature_policy = "{kept / POLICY}"
  signature_policy_dir = "{kept / "policies"}"
[crio.network]
  network_dir = "{places.cni}"
  plugin_dirs = ["{cni_plugins}"]
[crio.nri]
  enable_nri = false
"""
