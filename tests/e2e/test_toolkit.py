"""The role against real containerds: what they read, what they run with, and when they are started anew."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from controllers.api.resources import GPUNODEINVENTORY
from controllers.api.runtime_state import AWAITING_NODE as WAITING
from controllers.api.runtime_state import AWAITING_TOOLKIT as TOOLKIT
from controllers.api.runtime_state import READY, REFUSED, REVERTED, SILENT
from nodeagent.toolkit import cri, inside
from nodeagent.toolkit.config import containerd, effective, marks, plan, sources
from nodeagent.toolkit.keeper import Keeper
from nodeagent.toolkit.restart import Timeouts
from nodeagent.toolkit.state import State
from nodeagent.toolkit.way_back import STATE
from sim.module.install import ROOT
from sim.realnode import distribution
from sim.realnode.needs import missing
from tests.e2e.realcontainerd import RealContainerd
from tests.kit.waiting import PATIENCE
from tests.nodeagent.toolkit import configurations as made
from tools.programs import Silent, ensure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.e2e
BY_HAND = made.BY_HAND.replace("/data/containerd", "/var/lib/containerd")
FOUND = {
    "by-hand": {sources.MAIN: BY_HAND},
    "short": {sources.MAIN: made.SHORT},
    "no-last-newline": {sources.MAIN: made.SHORT.rstrip("\n")},
    "empty": {sources.MAIN: ""},
    "absent": dict[str, str](),
    "an-import": {sources.MAIN: made.WITH_IMPORTS, f"{made.CONFD}/10-cni.toml": made.CNI},
}
VERSION_3 = {
    "version-3": {sources.MAIN: made.VERSION_3.replace("imports", "# imports")},
    "version-3-with-imports": {sources.MAIN: made.VERSION_3},
}


@pytest.fixture(params=["1.6", "1.7", "2"])
def program(request: pytest.FixtureRequest) -> Path:
    return path_of(request.param)


def path_of(release: str) -> Path:
    if reason := missing():
        pytest.skip(reason)
    if release == "1.6":
        return distribution.containerd(Silent())["containerd"]
    name = "containerd" if release == "1.7" else "containerd2"
    return ensure((name,))[name]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RealContainerd]]:
    running: list[RealContainerd] = []

    def begin(program: Path, files: Mapping[str, str], *, toolkit: bool = True) -> RealContainerd:
        running.append(RealContainerd(tmp_path / f"root{len(running)}", program, files, toolkit=toolkit))
        return running[-1]

    yield begin
    for one in running:
        one.end()


def tree(node: RealContainerd) -> dict[str, tuple[int, int, int, int, bytes]]:
    """Each file below /etc, with what would tell that it was written again."""
    found = (path for path in sorted(node.at("/etc").rglob("*")) if path.is_file())
    return {
        str(path.relative_to(node.root)): (
            (seen := path.stat()).st_ino,
            seen.st_mode,
            seen.st_uid,
            seen.st_mtime_ns,
            path.read_bytes(),
        )
        for path in found
    }


def contents(node: RealContainerd) -> dict[str, bytes]:
    return {path: told[-1] for path, told in tree(node).items()}


def runs_with_handlers(node: RealContainerd) -> bool:
    settings = node.kind.runtime.settings()
    programs = {name: f"{plan.FOLDER}/{file}" for name, file in plan.HANDLERS.items()}
    told = {name: settings["containerd"]["runtimes"].get(name, {}).get("options", {}) for name in programs}
    assert "runc" in settings["containerd"]["runtimes"]
    return {name: options.get("BinaryName") for name, options in told.items()} == programs


@pytest.mark.parametrize("found", [*FOUND, *VERSION_3])
def test_handlers_are_in_force_after_one_restart_and_are_taken_away_to_the_byte(
    program: Path, found: str, start: Callable[..., RealContainerd]
) -> None:
    if found in VERSION_3 and program != path_of("2"):
        pytest.skip("version 3 is containerd 2's")
    node = start(program, (FOUND | VERSION_3)[found])
    if node.config.exists():
        node.config.chmod(0o600)
        os.chown(node.config, 1234, 4321)
        node.restart()
    before, starts, dumped = contents(node), node.starts, node.kind.dump(node.kind.server())

    assert node.keeper.reconcile() == State(READY, kind="containerd")
    assert node.starts == starts + 1
    assert runs_with_handlers(node)
    changed = effective.differences(dumped, node.kind.dump(node.kind.server()))
    assert [path for path in changed if not containerd.is_ours(path)] == []
    if sources.MAIN.lstrip("/") in before:
        seen = node.config.stat()
        assert (seen.st_mode & 0o777, seen.st_uid, seen.st_gid) == (0o600, 1234, 4321)

    written = tree(node)
    again = Keeper(node.host, node.keeper.timeouts)  # as a pod that was started again
    assert [node.keeper.reconcile().phase, again.reconcile().phase, again.reconcile().phase] == [READY] * 3
    assert tree(node) == written
    assert node.starts == starts + 1

    assert again.remove().phase == READY
    assert contents(node) == before
    assert node.starts == starts + 1
    assert runs_with_handlers(node), "nothing is restarted for a handler that goes"
    node.restart()
    assert effective.handlers(node.kind.dump(node.kind.server())).keys() == effective.handlers(dumped).keys()


def test_containerd_reads_files_as_the_pure_tests_have_it(program: Path, start: Callable[..., RealContainerd]) -> None:
    """`configurations.effective` plays the dump in the pure tests: the real one says the same of what counts."""
    node = start(program, {})
    release = node.kind.runtime.release()
    assert release is not None
    played = (2, 1) if release[0] == 2 else release
    for name, case in made.CASES.items():
        if case.release != played or case.deckhouse or "absent" in name:
            continue
        for path in node.at("/etc/containerd").rglob("*.toml"):
            path.unlink()
        for path, content in case.files.items():
            node.at(path).parent.mkdir(parents=True, exist_ok=True)
            node.at(path).write_bytes(content)
        real = node.kind.dump(node.kind.server())
        assert effective.handlers(real) == effective.handlers(case.effective), name
        # The newest have no switch any more: CDI is on.
        assert effective.cdi(real) in {effective.cdi(case.effective), *([None] if release[0] > 1 else [])}, name
        for handler in effective.handlers(real):
            assert effective.as_is(real, handler).options == effective.as_is(case.effective, handler).options, name


def test_the_former_drop_in_goes_with_its_passwords_and_a_hidden_edit_takes_effect(
    start: Callable[..., RealContainerd],
) -> None:
    edited = made.WITH_IMPORTS + f'[{made.V2}]\nsandbox_image = "edited.example.com/pause:9"\n'
    node = start(path_of("1.7"), {sources.MAIN: edited, sources.FORMER: made.FORMER})
    assert node.kind.runtime.settings()["sandboxImage"] != "edited.example.com/pause:9", "the copy hides the edit"
    node.at(sources.MAIN).chmod(0o600)

    assert node.keeper.reconcile().phase == READY

    assert not node.at(sources.FORMER).exists()
    assert list(node.at(STATE).glob("way-back*")) == []
    grep = [path for path in node.root.rglob("*") if path.is_file() and path.suffix in {".toml", ".json", ""}]
    holding = [path for path in grep if path.stat().st_size < 1 << 20 and made.PASSWORD.encode() in path.read_bytes()]
    assert holding == []
    node.restart()
    assert node.kind.runtime.settings()["sandboxImage"] == "edited.example.com/pause:9"
    assert runs_with_handlers(node)


def test_a_containerd_that_does_not_come_back_gets_its_former_files_and_the_same_is_not_tried_again(
    start: Callable[..., RealContainerd],
) -> None:
    node = start(path_of("1.7"), {sources.MAIN: BY_HAND})
    node.config.chmod(0o640)
    before = contents(node)
    node.refuses = marks.BEGIN
    node.keeper.timeouts = node.impatient

    state = node.keeper.reconcile()

    assert state.phase == REVERTED
    assert "did not serve" in state.reason
    assert contents(node) == before
    assert node.config.stat().st_mode & 0o777 == 0o640
    node.served()
    starts, written = node.starts, tree(node)
    assert node.keeper.reconcile().phase == REVERTED
    assert Keeper(node.host, node.keeper.timeouts).reconcile().phase == REVERTED
    assert (node.starts, tree(node)) == (starts, written)

    node.refuses = ""
    with node.config.open("a") as file:
        file.write("# the administrator changed something\n")
    assert node.keeper.reconcile().phase == READY


def test_what_another_file_would_hide_is_not_left_behind(start: Callable[..., RealContainerd]) -> None:
    """A pattern of folders, which the plan does not follow: containerd itself says that ours would not be seen."""
    text = made.SHORT.replace("version = 2\n", 'version = 2\nimports = ["/etc/containerd/*.d/cri.toml"]\n')
    node = start(path_of("1.7"), {sources.MAIN: text, "/etc/containerd/my.d/cri.toml": made.SHORT})
    before = contents(node)

    state = node.keeper.reconcile()

    assert state.phase == REFUSED
    assert "would not see nvidia" in state.reason
    assert contents(node) == before
    assert node.starts == 1
    assert node.keeper.reconcile().phase == REVERTED, "not tried again"


@pytest.mark.parametrize("at", range(1, 7))
def test_a_process_that_is_killed_at_any_moment_is_followed_by_one_that_ends_the_work(
    start: Callable[..., RealContainerd], monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    node = start(path_of("1.7"), {sources.MAIN: made.WITH_IMPORTS, sources.FORMER: made.FORMER})
    steps = iter(range(1, 100))
    for owner, name in ((inside, "run"), (cri.Runtime, "making"), (cri.Runtime, "settings")):
        real = getattr(owner, name)

        def step(*args: object, real: Callable[..., object] = real, **more: object) -> object:
            if next(steps) == at:
                raise KeyboardInterrupt
            return real(*args, **more)

        monkeypatch.setattr(owner, name, step)
    with pytest.raises(KeyboardInterrupt):
        node.keeper.reconcile()
    monkeypatch.undo()

    node.served()
    assert Keeper(node.host, node.keeper.timeouts).reconcile().phase == READY
    assert runs_with_handlers(node)
    assert not node.at(sources.FORMER).exists()
    assert not (node.at(STATE) / "way-back.json").exists()
    assert tomllib.loads(node.config.read_text())


def test_on_deckhouses_node_the_drop_in_is_written_and_bashible_waited_for(
    start: Callable[..., RealContainerd],
) -> None:
    files = {sources.MAIN: made.DECKHOUSE_1, sources.DECKHOUSE: made.DECKHOUSE_1, "/var/lib/bashible/x": ""}
    node = start(path_of("1.7"), files)
    place = node.at(f"{sources.CONF_D}/{sources.DROP_IN}")

    assert node.keeper.reconcile().phase == WAITING
    assert node.starts == 1
    assert made.PASSWORD not in place.read_text()
    # What bashible's toml-merge would make of both; containerd merges nothing.
    node.config.write_text(made.DECKHOUSE_1 + place.read_text().replace(f"[{made.V2}]\n", "[ignored]\n", 1))
    node.config.write_text(
        node.config.read_text().replace("  sandbox_image", "  enable_cdi = true\n  sandbox_image", 1)
    )
    assert node.keeper.reconcile().phase == WAITING
    node.restart()
    assert node.keeper.reconcile().phase == READY
    assert node.starts == 2

    assert node.keeper.remove().phase == READY
    assert not place.exists()


def test_no_handler_is_told_of_before_its_program_is_there(start: Callable[..., RealContainerd]) -> None:
    node = start(path_of("1.7"), {sources.MAIN: made.SHORT}, toolkit=False)

    assert node.keeper.reconcile().phase == TOOLKIT
    assert contents(node) == {sources.MAIN.lstrip("/"): made.SHORT.encode()}


def test_a_containerd_that_is_upgraded_goes_on_with_what_it_knows(start: Callable[..., RealContainerd]) -> None:
    """The newest know no switch of CDI: what was switched on for 1.7 is not asked of them."""
    old = start(path_of("1.7"), {sources.MAIN: BY_HAND})
    assert old.keeper.reconcile() == State(READY, kind="containerd")
    old.end()
    new = start(path_of("2"), {sources.MAIN: old.config.read_text()})

    assert new.keeper.reconcile() == State(READY, kind="containerd")
    assert new.starts == 1, "it runs with the handlers already"
    assert runs_with_handlers(new)
    assert new.keeper.remove().phase == READY
    assert new.config.read_text() == BY_HAND


def test_ours_goes_though_no_containerd_answers(start: Callable[..., RealContainerd]) -> None:
    node = start(path_of("1.7"), {sources.MAIN: made.SHORT})
    node.keeper.reconcile()
    node.end()

    assert node.keeper.remove().phase == READY
    assert node.config.read_text() == made.SHORT


def test_who_is_told_to_end_while_it_waits_for_quiet_ends_and_the_next_one_goes_on(
    start: Callable[..., RealContainerd],
) -> None:
    node = start(path_of("1.7"), {sources.MAIN: made.SHORT})
    waiting = Keeper(node.host, Timeouts(quiet=PATIENCE, busy=PATIENCE))
    waiting.stopping.set()

    assert waiting.reconcile().phase == SILENT
    assert node.starts == 1
    assert node.keeper.reconcile() == State(READY, kind="containerd")
    assert node.starts == 2
    assert not (node.at(STATE) / "way-back.json").exists()


def test_the_program_is_ready_with_the_handlers_and_leaves_them_where_nobody_says_that_it_ends_for_good(
    start: Callable[..., RealContainerd], tmp_path: Path
) -> None:
    node = start(path_of("1.7"), {sources.MAIN: BY_HAND})
    flags = ("--root", str(node.root), "--node=x", "--health-port=0", "--quiet=0.2", "--period=0.2")
    log, config = tmp_path / "log", tmp_path / "kubeconfig"
    with log.open("wb") as out, it_is_its_turn(config):
        command = [sys.executable, "-m", "nodeagent", "toolkit", *flags, "--kubeconfig", str(config)]
        child = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT)
        try:
            end = time.monotonic() + PATIENCE
            while answer(log.read_text()) != 200:
                assert child.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.1)
            assert runs_with_handlers(node)
        finally:
            child.terminate()
            assert child.wait(PATIENCE) == 0
    assert "does not say whether the toolkit stays" in log.read_text()
    assert marks.BEGIN in node.config.read_text()
    assert made.PASSWORD not in log.read_text()
    assert node.starts == 2


@contextmanager
def it_is_its_turn(kubeconfig: Path) -> Iterator[None]:
    """An API server that knows one GPUNodeInventory, whose node may restart its runtime; all else is 503."""
    inventory = {"metadata": {"name": "x"}, "status": {"runtime": {"restartAllowed": True}}}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.partition("?")[0] == GPUNODEINVENTORY.path(None, "x")
            self.send_response(200 if known else 503)
            self.end_headers()
            self.wfile.write(json.dumps(inventory if known else {"message": "not now"}).encode())

        def log_message(self, *_: object) -> None:
            """Nothing on the error stream."""

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        user = {"name": "u", "user": {"token": "t"}}
        found = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "c"}
        kubeconfig.write_text(json.dumps(found | {"apiVersion": "v1", "kind": "Config"}))
        yield
        server.shutdown()


def answer(log: str) -> int:
    found = re.search(r'"health":"127.0.0.1:(\d+)"', log)
    if found is None:
        return 0
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    finally:
        connection.close()
