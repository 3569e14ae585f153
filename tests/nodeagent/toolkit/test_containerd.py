"""Which files change so that containerd knows NVIDIA's handlers: no more than that, no secret, and a way back."""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.toolkit.config import containerd, effective, marks, plan, sources
from tests.nodeagent.toolkit.configurations import (
    AUTH,
    BY_HAND,
    CASES,
    CNI,
    CONFD,
    DECKHOUSE_1,
    FORMER,
    GPU_GROUP,
    PASSWORD,
    SHORT,
    V2,
    WITH_IMPORTS,
    after,
    node,
)

GOLDEN = Path(__file__).parent / "golden"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))
NAMES = sorted(CASES)
PROGRAMS = {name: f"/usr/local/nvidia/toolkit/{file}" for name, file in plan.HANDLERS.items()}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_as_reviewed(name: str) -> None:
    """`UPDATE_GOLDEN=1` writes it anew; the difference is then reviewed with the change."""
    told = []
    for change in containerd.install(CASES[name]).changes:
        content = "(removed)\n" if change.after is None else change.after.decode()
        told.append(f"### {change.path}\n{content}")
    text, file = "".join(told), GOLDEN / f"{name}.txt"
    if UPDATE:
        GOLDEN.mkdir(exist_ok=True)
        file.write_bytes(text.encode())

    assert text.encode() == file.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_containerd_then_has_the_handlers_as_the_nodes_own_and_all_else_as_before(name: str) -> None:
    before = CASES[name]
    done = containerd.install(before)
    if done.awaits_bashible:
        pytest.skip("bashible merges it")
    then = after(before, done)

    assert {name: effective.handlers(then.effective).get(name) for name in PROGRAMS} == PROGRAMS
    assert effective.cdi(then.effective) is (True if before.release >= (1, 7) else None)
    own = effective.alike(then.effective, "nvidia", PROGRAMS["nvidia"])
    assert effective.as_is(then.effective, "nvidia") == own
    # Where the former drop-in hid the main file, it no longer does.
    base = node(before.release, {path: text for path, text in before.files.items() if path != sources.FORMER})
    changed = list(effective.differences(base.effective, then.effective))
    assert [path for path in changed if not containerd.is_ours(path)] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_second_look_changes_nothing(name: str) -> None:
    done = containerd.install(CASES[name])

    assert done.changes
    assert containerd.install(after(CASES[name], done)).changes == ()


@pytest.mark.parametrize("name", NAMES)
def test_removal_gives_back_every_byte_but_our_former_drop_in(name: str) -> None:
    before = CASES[name]
    then = after(before, containerd.install(before))
    back = after(then, containerd.remove(then))

    assert back.files == {path: content for path, content in before.files.items() if path != sources.FORMER}
    assert containerd.remove(back).changes == ()


@pytest.mark.parametrize("name", NAMES)
def test_files_that_were_never_ours_stay_as_they_are(name: str) -> None:
    assert [change for change in containerd.remove(CASES[name]).changes if change.path != sources.FORMER] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_is_in_what_we_add(name: str) -> None:
    for change in containerd.install(CASES[name]).changes:
        had = (change.before or b"").count(PASSWORD.encode())
        assert (change.after or b"").count(PASSWORD.encode()) == (0 if change.after is None else had)
        if change.before is None:
            assert b"registry" not in (change.after or b"")


def test_the_former_drop_in_and_its_passwords_go_in_the_same_plan() -> None:
    changes = {change.path: change for change in containerd.install(CASES["former"]).changes}

    assert PASSWORD.encode() in (changes[sources.FORMER].before or b"")
    assert changes[sources.FORMER].after is None
    assert set(changes) == {sources.FORMER, sources.MAIN}


def test_a_drop_in_of_that_name_that_is_another_operators_stays() -> None:
    """GPU Operator's, of that name too, makes its handler the default."""
    cdi = FORMER[FORMER.index("    BinaryName") :].replace('runtime"', 'runtime.cdi"')
    theirs = f"""{FORMER}      NoPivotRoot = true
  [{V2}.containerd.runtimes.nvidia-cdi.options]
  {cdi}  [{V2}.containerd]
  default_runtime_name = "nvidia"
"""
    done = containerd.install(node((1, 7), {sources.MAIN: WITH_IMPORTS, sources.FORMER: theirs}))

    assert (done.changes, done.handlers) == ((), ()), "nor is the runtime restarted for what they wrote"


def test_a_drop_in_of_another_toolkit_that_serves_the_node_stays_whatever_is_in_it() -> None:
    """GPU Operator's makes its handler the default only where it is told so: then the file may be as ours was."""
    theirs = replace(CASES["former"], elsewhere=True)
    assert sources.FORMER not in {change.path for change in containerd.install(theirs).changes if change.after is None}
    assert sources.FORMER not in {change.path for change in containerd.remove(theirs).changes}


def test_a_later_edit_of_the_administrators_stands_and_is_followed() -> None:
    then = after(CASES["by-hand"], containerd.install(CASES["by-hand"]))
    text = then.files[sources.MAIN].decode().replace("SystemdCgroup = true", "SystemdCgroup = false", 1)
    text += '[debug]\n  level = "debug"\n'
    edited = node((1, 7), {sources.MAIN: text})
    again = after(edited, containerd.install(edited))

    assert "SystemdCgroup" not in effective.as_is(again.effective, "nvidia").options
    assert tomllib.loads(again.files[sources.MAIN].decode())["debug"] == {"level": "debug"}
    expected = BY_HAND.replace("SystemdCgroup = true", "SystemdCgroup = false") + '[debug]\n  level = "debug"\n'
    assert after(again, containerd.remove(again)).files == {sources.MAIN: expected.encode()}


def test_what_was_written_after_a_file_without_a_last_newline_stays_a_line_of_its_own() -> None:
    then = after(CASES["no-last-newline"], containerd.install(CASES["no-last-newline"]))
    edited = node((1, 7), {sources.MAIN: then.files[sources.MAIN] + b'[debug]\nlevel = "debug"\n'})

    assert after(edited, containerd.remove(edited)).files == {
        sources.MAIN: (SHORT + '[debug]\nlevel = "debug"\n').encode()
    }


def test_an_upgrade_to_a_containerd_without_the_switch_of_cdi_gives_the_line_back() -> None:
    then = after(CASES["by-hand"], containerd.install(CASES["by-hand"]))
    (change,) = containerd.install(node((2, 4), then.files)).changes

    assert marks.switches_cdi((change.before or b"").decode())
    assert not marks.switches_cdi((change.after or b"").decode())
    assert "\tenable_cdi = false # not yet\n" in (change.after or b"").decode()


def test_containerds_own_handler_is_told_of_where_no_file_does() -> None:
    """1.7 has runc by itself only as long as no file tells of any handler: seen with the real program."""
    then = after(CASES["empty"], containerd.install(CASES["empty"]))

    assert "runc" in effective.handlers(then.effective)


def test_the_last_import_with_settings_of_the_plugin_is_the_one_in_force_in_1() -> None:
    (change,) = containerd.install(CASES["an-import-in-force"]).changes

    assert change.path == f"{CONFD}/10-cni.toml"
    assert (change.before or b"").decode() == CNI


def test_deckhouses_drop_ins_lie_where_bashible_looks_and_wait_for_it() -> None:
    one, two = containerd.install(CASES["deckhouse"]), containerd.install(CASES["deckhouse-v2"])

    assert [change.path for change in one.changes] == ["/etc/containerd/conf.d/90-gpu-control-plane.toml"]
    assert [change.path for change in two.changes] == ["/etc/containerd/conf2.d/90-gpu-control-plane.toml"]
    assert one.awaits_bashible
    assert two.awaits_bashible
    for done in (one, two):
        parsed = tomllib.loads((done.changes[0].after or b"").decode())
        assert set(parsed) == {"plugins"}
        assert "registry" not in str(parsed)


def test_a_node_group_with_gpus_of_deckhouse_has_its_handler_and_gets_none_of_ours() -> None:
    text = DECKHOUSE_1.replace(AUTH, GPU_GROUP + AUTH)
    done = containerd.install(node((1, 7), {sources.MAIN: text, sources.DECKHOUSE: text}, deckhouse=True))

    assert done.changes == ()
    assert done.foreign == "/usr/bin/nvidia-container-runtime"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({sources.MAIN: 'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'}, "disables containerd's CRI plugin"),
        ({sources.MAIN: 'disabled_plugins = ["cri"]\n'}, "disables containerd's CRI plugin"),
        (
            {sources.MAIN: f'{SHORT}[{V2}.containerd.runtimes.nvidia]\nio_type = "x"\n'},
            "handler nvidia runs 'runc'",
        ),
        ({sources.MAIN: SHORT.replace("runc.v2", "kata.v2")}, "no handler runc"),
        ({sources.MAIN: f"{marks.BEGIN}\n{SHORT}"}, "half of the module's marks"),
        (
            {sources.MAIN: 'version = 2\nplugins = {"io.containerd.grpc.v1.cri" = {sandbox_image = "x"}}\n'},
            "in a form that cannot be added to",
        ),
    ],
)
def test_what_is_not_foreseen_is_told_and_nothing_is_written(files: dict[str, str], says: str) -> None:
    with pytest.raises(plan.Refused, match=says):
        containerd.install(node((1, 7), files))


def test_a_handler_that_is_the_default_one_is_not_taken_away() -> None:
    """containerd loads no CRI plugin whose default handler is not there: the node would lose its pods."""
    default = f'{SHORT}[{V2}.containerd]\ndefault_runtime_name = "nvidia"\n'
    seen = node((1, 7), {sources.MAIN: default})
    installed = after(seen, containerd.install(seen))

    with pytest.raises(plan.Refused, match=r"nvidia is containerd's default_runtime_name.* name another"):
        containerd.remove(installed)
    elsewhere = f'version = 2\n[{V2}.containerd.runtimes.nvidia]\nruntime_type = "io.containerd.runc.v2"\n'
    files = installed.files | {"/etc/containerd/theirs.toml": elsewhere.encode()}
    assert containerd.remove(sources.Node((1, 7), files, installed.effective)).changes


def test_a_file_that_is_not_text_is_left_alone() -> None:
    seen = sources.Node((1, 7), {sources.MAIN: b"\xff\xfe"}, CASES["short"].effective)

    with pytest.raises(plan.Refused, match="not UTF-8"):
        containerd.install(seen)
    assert containerd.remove(seen).changes == ()


def test_a_refusal_quotes_nothing_of_the_file() -> None:
    broken = sources.Node((1, 7), {sources.MAIN: f'password = "{PASSWORD}\n'.encode()}, CASES["short"].effective)

    with pytest.raises(plan.Refused, match="it is not TOML") as told:
        containerd.install(broken)
    assert PASSWORD not in str(told.value)


def test_deckhouses_file_is_awaited() -> None:
    with pytest.raises(plan.Refused, match="wait until it has made it"):
        containerd.install(node((1, 7), {sources.MAIN: SHORT}, deckhouse=True))
