"""CRI-O: one drop-in with two handlers like the node's own; nobody's file is edited, and no other setting copied."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from nodeagent.toolkit.config import crio, effective
from nodeagent.toolkit.config.crio import DROP_IN, DROP_INS, CrioNode
from nodeagent.toolkit.config.plan import FOLDER, HANDLERS, Refused

PLACE = f"{DROP_INS}/{DROP_IN}"
PROGRAMS = {name: f"{FOLDER}/{file}" for name, file in HANDLERS.items()}
PASSWORD = "s3cret-of-the-registry"
RUNTIMES = "crio.runtime.runtimes"
CASES = {
    "as-packaged": f'[crio.runtime]\n[{RUNTIMES}.crun]\nruntime_path = ""\nruntime_type = "oci"\n'
    'monitor_path = ""\nmonitor_cgroup = "system.slice"\n'
    'allowed_annotations = ["io.containers.trace-syscall", "io.kubernetes.cri-o.Devices"]\n',
    "openshift": f'[crio.runtime]\ndefault_runtime = "runc"\n[{RUNTIMES}.runc]\nruntime_path = "/usr/bin/runc"\n'
    'monitor_path = "/usr/libexec/crio/conmon"\nmonitor_cgroup = "pod"\nmonitor_env = ["PATH=/usr/bin"]\n'
    f'[{RUNTIMES}.crun]\nruntime_path = "/usr/bin/crun"\n',
    "kata-beside": f'[crio.runtime]\ndefault_runtime = "crun"\n[{RUNTIMES}.kata]\nruntime_path = "/usr/bin/kata"\n'
    f'runtime_type = "vm"\n[{RUNTIMES}.crun]\nruntime_path = "/usr/bin/crun"\nprivileged_without_host_devices = true\n',
    "kata-by-default": f'[crio.runtime]\ndefault_runtime = "kata"\n[{RUNTIMES}.kata]\nruntime_path = "/usr/bin/kata"\n'
    'runtime_type = "vm"\n',
    "nothing-said": "",
    "auth": f'[crio.image]\nglobal_auth_file = "/etc/crio/{PASSWORD}.json"\n[{RUNTIMES}.runc]\nruntime_type = "oci"\n',
}


def node(text: str, ours: bytes | None = None) -> CrioNode:
    """A node whose CRI-O prints this, and has our drop-in beside it."""
    made = merged(tomllib.loads(text), tomllib.loads(ours.decode()) if ours else {})
    return CrioNode((1, 34), {PLACE: ours} if ours is not None else {}, made)


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    made = dict(one)
    for key, value in other.items():
        had = made.get(key)
        made[key] = merged(had, value) if isinstance(had, dict) and isinstance(value, dict) else value
    return made


@pytest.mark.parametrize("name", CASES)
def test_the_drop_in_has_the_handlers_and_nothing_else_and_goes_whole(name: str) -> None:
    before = node(CASES[name])
    done = crio.install(before)
    (change,) = done.changes
    after = node(CASES[name], change.after)

    assert (change.path, change.before) == (PLACE, None)
    assert {one: crio.programs(after.effective)[one] for one in PROGRAMS} == PROGRAMS
    changed = list(effective.differences(before.effective, after.effective))
    assert changed
    assert all(crio.is_ours(path) for path in changed)
    assert PASSWORD.encode() not in (change.after or b"")
    assert set(tomllib.loads((change.after or b"").decode())) == {"crio"}
    assert crio.install(after).changes == ()
    (gone,) = crio.remove(after).changes
    assert (gone.path, gone.after) == (PLACE, None)
    assert crio.remove(before).changes == ()


def test_a_handler_is_watched_as_the_nodes_own_is_and_allows_what_that_allows() -> None:
    told = {name: crio.runtimes(after_of(name))["nvidia"] for name in CASES}

    assert told["openshift"]["monitor_path"] == "/usr/libexec/crio/conmon"
    assert told["openshift"]["monitor_env"] == ["PATH=/usr/bin"]
    assert told["as-packaged"]["allowed_annotations"][-1] == "io.kubernetes.cri-o.Devices"
    assert told["kata-beside"]["privileged_without_host_devices"] is True
    assert told["kata-by-default"] == {"runtime_path": PROGRAMS["nvidia"], "runtime_type": "oci"}


def after_of(name: str) -> dict[str, Any]:
    return tomllib.loads((crio.install(node(CASES[name])).changes[0].after or b"").decode())


def test_somebody_elses_handler_stands_and_another_program_of_that_name_is_told() -> None:
    theirs = f'[{RUNTIMES}.nvidia]\nruntime_path = "/usr/bin/nvidia-container-runtime"\n'
    assert crio.install(node(theirs)).foreign == "/usr/bin/nvidia-container-runtime"
    assert crio.install(node(theirs)).changes == ()

    with pytest.raises(Refused, match="a handler nvidia runs '/usr/bin/other'"):
        crio.install(node(f'[{RUNTIMES}.nvidia]\nruntime_path = "/usr/bin/other"\n'))


def test_a_handler_that_is_the_default_one_is_not_taken_away() -> None:
    ours = crio.install(node("")).changes[0].after
    with pytest.raises(Refused, match="default_runtime, and would be gone"):
        crio.remove(node('[crio.runtime]\ndefault_runtime = "nvidia"\n', ours))
