"""Nodes as they are met, as files and what containerd makes of them, for the tests of the toolkit's role.

`effective` plays `containerd config dump`; `tests/e2e/test_toolkit.py` holds it to the real program.
"""

from __future__ import annotations

import tomllib
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from nodeagent.toolkit.config import plan, sources
from nodeagent.toolkit.config.effective import plugin, version
from tests.nodeagent.toolkit import as_met

if TYPE_CHECKING:
    from collections.abc import Mapping

PASSWORD = "s3cret-of-the-registry"
V2 = 'plugins."io.containerd.grpc.v1.cri"'
V3 = "plugins.'io.containerd.cri.v1.runtime'"
RUNC = {"runtime_type": "io.containerd.runc.v2", "options": {"SystemdCgroup": False}}
AUTH = f"""
    [{V2}.registry.configs."registry.example.com".auth]
      username = "node"
      password = "{PASSWORD}"
"""
BY_HAND = f"""# kept by Olga; ask before you change it
version = 2
root = "/data/containerd"   # the large disk

[{V2}]
  sandbox_image = "registry.example.com/pause:3.9"
\tenable_cdi = false # not yet

  [{V2}.registry]
{AUTH}
  [{V2}.containerd]
    snapshotter = "overlayfs"
    [{V2}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{V2}.containerd.runtimes.runc.options]
        SystemdCgroup = true

[timeouts]
  "io.containerd.timeout.shim.cleanup" = "5s"
"""
SHORT = f'version = 2\n[{V2}.containerd.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n'
VERSION_3 = f"""version = 3
imports = ["/etc/containerd/conf.d/*.toml"]
[plugins.'io.containerd.cri.v1.images'.registry.configs."registry.example.com".auth]
  password = "{PASSWORD}"
[{V3}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [{V3}.containerd.runtimes.runc.options]
    SystemdCgroup = true
"""
DECKHOUSE_1 = f"""version = 2
[plugins]
  [{V2}]
    sandbox_image = "deckhouse.local/images:pause"
    [{V2}.containerd]
      default_runtime_name = "runc"
      [{V2}.containerd.runtimes]
        [{V2}.containerd.runtimes.runc]
          runtime_type = "io.containerd.runc.v2"
          [{V2}.containerd.runtimes.runc.options]
            SystemdCgroup = true
    [{V2}.registry]{AUTH}"""
DECKHOUSE_2 = f"""version = 3
[plugins]
  [{V3}]
    enable_cdi = true
    [{V3}.containerd]
      default_runtime_name = "runc"
      [{V3}.containerd.runtimes.runc]
        runtime_type = 'io.containerd.runc.v2'
        [{V3}.containerd.runtimes.runc.options]
          SystemdCgroup = true
"""
FORMER = f"""version = 2
[{V2}]
  enable_cdi = true
  [{V2}.registry]{AUTH}
  [{V2}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [{V2}.containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
    [{V2}.containerd.runtimes.nvidia.options]
      BinaryName = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
"""
WITH_IMPORTS = SHORT.replace("version = 2\n", 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n')
CNI = f'version = 2\n[{V2}.cni]\nconf_dir = "/etc/cni"\n'
GPU_GROUP = f"""
        [{V2}.containerd.runtimes.nvidia]
          runtime_type = "io.containerd.runc.v2"
          [{V2}.containerd.runtimes.nvidia.options]
            BinaryName = "/usr/bin/nvidia-container-runtime"
"""


def node(release: tuple[int, int], files: Mapping[str, str | bytes], *, deckhouse: bool = False) -> sources.Node:
    """A node with these files."""
    content = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    return sources.Node(release, content, effective(release, content), deckhouse=deckhouse)


def after(before: sources.Node, done: plan.Plan) -> sources.Node:
    """The node once the plan is carried out."""
    files = dict(before.files)
    for change in done.changes:
        assert files.get(change.path) == change.before
        files.pop(change.path, None)
        if change.after is not None:
            files[change.path] = change.after
    return node(before.release, files, deckhouse=before.deckhouse)


def effective(release: tuple[int, int], files: Mapping[str, bytes]) -> dict[str, Any]:
    """What containerd makes of its files: the plugin's settings and its handlers."""
    newest = plugin(release[0] + 1)
    made: dict[str, Any] = {}
    disabled: list[str] = []
    for path in sources.read_in_order(sources.MAIN, files):
        parsed = tomllib.loads(files[path].decode())
        disabled += parsed.get("disabled_plugins", [])
        told = deepcopy(parsed.get("plugins", {}).get(plugin(version(parsed)), {}))
        # 1.x replaces a plugin's settings by those of the file that is read later.
        made = merged(made, told) if release[0] > 1 else told or made
    made.setdefault("containerd", {}).setdefault("runtimes", {"runc": deepcopy(RUNC)})
    if release >= (2, 4):
        made.pop("enable_cdi", None)
    elif release >= (1, 7):
        made.setdefault("enable_cdi", release[0] > 1)
    return {"version": release[0] + 1, "disabled_plugins": disabled, "plugins": {newest: made}}


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The other over the one, table by table."""
    made = dict(one)
    for key, value in other.items():
        had = made.get(key)
        made[key] = merged(had, value) if isinstance(had, dict) and isinstance(value, dict) else value
    return made


CONFD = "/etc/containerd/conf.d"
CASES: dict[str, sources.Node] = {
    "by-hand": node((1, 7), {sources.MAIN: BY_HAND}),
    "by-hand-1.6": node((1, 6), {sources.MAIN: BY_HAND.replace("\tenable_cdi = false # not yet\n", "")}),
    "short": node((1, 7), {sources.MAIN: SHORT}),
    "no-last-newline": node((1, 7), {sources.MAIN: SHORT.rstrip("\n")}),
    "crlf": node((1, 7), {sources.MAIN: BY_HAND.replace("\n", "\r\n")}),
    "version-1": node((1, 7), {sources.MAIN: '[plugins.cri]\n  sandbox_image = "pause"\n'}),
    "empty": node((1, 7), {sources.MAIN: ""}),
    "absent": node((1, 7), {}),
    "an-import-in-force": node((1, 7), {sources.MAIN: WITH_IMPORTS, f"{CONFD}/10-cni.toml": CNI}),
    "former": node((1, 7), {sources.MAIN: WITH_IMPORTS + AUTH, sources.FORMER: FORMER}),
    "2-with-imports": node((2, 1), {sources.MAIN: VERSION_3}),
    "2-without": node((2, 1), {sources.MAIN: VERSION_3.replace('imports = ["/etc/containerd/conf.d/*.toml"]\n', "")}),
    "2-with-version-2": node((2, 1), {sources.MAIN: BY_HAND}),
    "2-absent": node((2, 1), {}),
    "deckhouse": node((1, 7), {sources.MAIN: DECKHOUSE_1, sources.DECKHOUSE: DECKHOUSE_1}, deckhouse=True),
    "deckhouse-former": node(
        (1, 7), {sources.MAIN: DECKHOUSE_1, sources.DECKHOUSE: DECKHOUSE_1, sources.FORMER: FORMER}, deckhouse=True
    ),
    "deckhouse-v2": node((2, 1), {sources.MAIN: DECKHOUSE_2, sources.DECKHOUSE: DECKHOUSE_2}, deckhouse=True),
}
CASES |= {name: node((1, 7), {sources.MAIN: text}) for name, text in as_met.ONE.items()}
CASES |= {name: node((2, 1), {sources.MAIN: text}) for name, text in as_met.TWO.items()}
