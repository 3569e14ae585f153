"""The control plane comes up, works, survives kills, and leaves nothing behind."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.controlplane import (
    ProcessSpec,
    Ready,
    add_process,
    client,
    down,
    load,
    remove_process,
    status,
    up,
    wait_ready,
)
from sim.controlplane.child import backoff
from sim.controlplane.components import merge_flags
from sim.controlplane.layout import Layout
from sim.controlplane.ports import free_ports
from sim.controlplane.procfs import Identity
from sim.controlplane.state import ProcessState, State, read_state, write_atomically
from tests.kit import planes
from tests.kit.pace import Stretch
from tests.kit.waiting import PATIENCE
from tools.errors import UserError


def eventually(condition, timeout=PATIENCE):
    """Return the condition's first true value."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
    return value


def running(name, folder):
    return client.running(Layout.of(folder)).processes.get(name)


# --- pure ----------------------------------------------------------------------------------


def test_extra_flags_replace_ours():
    assert merge_flags(["--a=1", "--b", "--c=2"], ["--c=3", "--d"]) == ["--a=1", "--b", "--c=3", "--d"]


@given(st.integers(1, 10_000))
def test_backoff_grows_to_its_limit(failures):
    assert 0.2 <= backoff(failures) <= backoff(failures + 1) <= 5.0


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(
    argv=st.lists(texts, min_size=1).map(tuple),
    env=st.dictionaries(texts, texts, max_size=3),
    urls=st.lists(texts, max_size=2).map(tuple),
    ports=st.dictionaries(texts, st.integers(0, 65535), max_size=2),
)
def test_descriptions_survive_their_file(argv, env, urls, ports):
    spec = ProcessSpec("x", argv, env=env, ready=Ready(urls=urls), ports=ports)
    assert ProcessSpec.from_json(spec.to_json()) == spec
    assert ProcessSpec.from_json(spec.to_json()).digest == spec.digest


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".x", "A", "x" * 64, "x\n"])
def test_bad_names_are_refused(name):
    with pytest.raises(ValueError, match="DNS label"):
        ProcessSpec(name, ("true",))


def test_state_survives_its_file(tmp_path):
    me = Identity.of(os.getpid())
    state = State(
        me, {"a": ProcessState("a", "d", "ready", me, ports={"x": 1}), "b": ProcessState("b", "d", "backoff")}
    )
    write_atomically(tmp_path / "s", state.to_json())
    assert read_state(tmp_path / "s") == state
    (tmp_path / "s").write_text('{"supervisor": 3}')
    assert read_state(tmp_path / "s") is None
    assert read_state(tmp_path / "absent") is None


def test_identity_is_of_one_process_only():
    me = Identity.of(os.getpid())
    assert me.alive
    assert not replace(me, start_time=me.start_time - 1).alive
    assert not replace(me, boot_id="another boot").alive
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        identity = Identity.of(child.pid)
        assert not replace(identity, start_time=1).signal(signal.SIGKILL)
        assert child.poll() is None
        assert identity.signal(signal.SIGKILL)
        eventually(lambda: not identity.alive)  # a zombie, not reaped yet
        assert not identity.signal(signal.SIGKILL)
    assert Identity.of(child.pid) is None


def test_free_ports_differ_and_can_be_bound():
    ports = free_ports(50)
    assert len(set(ports)) == 50
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", ports[0]))


def test_where_the_ephemeral_range_leaves_none_below_it_ports_come_from_that(monkeypatch):
    monkeypatch.delenv("SIM_PORTS", raising=False)
    monkeypatch.setattr("sim.controlplane.ports._ephemeral_start", lambda: 1024)
    assert len(set(free_ports(5))) == 5


def test_ports_come_from_the_range_that_was_said_and_no_two_are_given_soon_again(monkeypatch):
    monkeypatch.setenv("SIM_PORTS", "21000-21400")
    given = [port for _ in range(10) for port in free_ports(10)]
    assert len(set(given)) == 100
    assert all(21000 <= port < 21400 for port in given)
    assert len([port for _ in range(50) for port in free_ports(10)]) == 500, "they are given again in the end"


# --- the supervisor, with processes of no weight --------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A directory with a running supervisor that has nothing to do yet."""
    layout = Layout.of(tmp_path / "run")
    layout.root.mkdir()
    client.start_supervisor(layout)
    yield layout.root
    down(layout.root)


def sleeper(name="sleeper", **more):
    return ProcessSpec(name, ("/bin/sleep", "600"), **more)


def test_it_ends_what_it_runs_when_its_owner_is_gone(tmp_path, monkeypatch):
    owner = subprocess.Popen(["/bin/sleep", "600"])
    monkeypatch.setenv("SIM_OWNER", str(owner.pid))
    layout = Layout.of(tmp_path / "run")
    layout.root.mkdir()
    client.start_supervisor(layout)
    add_process(layout.root, sleeper())
    pid = eventually(lambda: (one := running("sleeper", layout.root)) and one.pid)
    assert Identity.of(pid)
    owner.kill()
    owner.wait()
    eventually(lambda: client.running(layout) is None and Identity.of(pid) is None)
    down(layout.root)


def test_process_starts_and_ends_by_its_description(folder):
    add_process(folder, sleeper())
    state = wait_ready(folder, "sleeper")
    assert os.getsid(state.pid) == state.pid  # a Ctrl-C of ours is not for it
    remove_process(folder, "sleeper")
    assert not state.identity.alive
    assert running("sleeper", folder) is None


def test_killed_process_is_restarted_soon(folder):
    add_process(folder, sleeper())
    first = wait_ready(folder, "sleeper")
    with Stretch() as machine:
        os.kill(first.pid, signal.SIGKILL)
        second = eventually(lambda: (p := running("sleeper", folder)).restarts == 1 and p.phase == "ready" and p)
    assert second.pid != first.pid
    assert second.exit_code == -signal.SIGKILL
    machine.judge("the restart", machine.seconds, 2.0)


def test_process_that_keeps_ending_waits_longer(folder):
    add_process(folder, ProcessSpec("flap", ("/bin/false",)))
    eventually(lambda: (p := running("flap", folder)) and p.restarts >= 3)
    with pytest.raises(UserError, match="ended"):
        wait_ready(folder, "flap", 5, max_restarts=2)
    began, before = time.monotonic(), running("flap", folder).restarts
    time.sleep(1.0)
    assert running("flap", folder).restarts - before <= 2 + (time.monotonic() - began)


def test_changed_description_restarts_and_unchanged_does_not(folder):
    add_process(folder, sleeper())
    first = wait_ready(folder, "sleeper")
    add_process(folder, sleeper())
    assert wait_ready(folder, "sleeper").pid == first.pid
    add_process(folder, sleeper(env={"A": "b"}))
    second = wait_ready(folder, "sleeper")
    assert second.pid != first.pid
    assert not first.identity.alive
    assert b"A=b" in Path(f"/proc/{second.pid}/environ").read_bytes().split(b"\0")


def test_description_that_changes_twice_within_the_grace_runs_in_its_last_form(folder):
    go = folder / "go"
    slow = ProcessSpec(
        "slow", ("/bin/sh", "-c", f"trap 'until [ -e {go} ]; do sleep 0.05; done; exit' TERM; sleep 600 & wait")
    )
    add_process(folder, slow)
    first = wait_ready(folder, "slow")
    add_process(folder, replace(slow, env={"A": "b"}))
    eventually(lambda: running("slow", folder).phase == "stopping")
    add_process(folder, slow)
    go.touch()
    eventually(lambda: not first.identity.alive)
    second = eventually(lambda: (p := running("slow", folder)) and p.phase == "ready" and p)
    assert second.digest == slow.digest


def test_process_that_runs_once_tells_its_end(folder):
    add_process(folder, ProcessSpec("once", ("/bin/sh", "-c", "echo out of cards; exit 3"), restart="never",
                                    ready=Ready(files=("/nowhere",))))  # fmt: skip
    with pytest.raises(UserError, match="ended with 3") as caught:
        wait_ready(folder, "once")
    assert "out of cards" in str(caught.value)


def serves(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_ready_waits_for_file_and_url(folder, tmp_path):
    (port,) = free_ports(1)
    mark = tmp_path / "mark"
    serve = f"import http.server as h; h.test(h.SimpleHTTPRequestHandler, port={port}, bind='127.0.0.1')"
    ready = Ready(urls=(f"http://127.0.0.1:{port}/",), files=(str(mark),))
    add_process(folder, ProcessSpec("web", (sys.executable, "-c", serve), cwd=str(tmp_path), ready=ready))
    eventually(lambda: b"x" if serves(port) else b"")
    with pytest.raises(UserError, match="not ready"):
        wait_ready(folder, "web", 0.3)
    mark.touch()
    wait_ready(folder, "web", 5)


def test_what_cannot_run_is_told_and_harms_no_other(folder):
    add_process(folder, ProcessSpec("nothing", ("/no/such/program",)))
    add_process(folder, ProcessSpec("nowhere", ("/bin/true",), cwd="/no/such/folder"))
    (folder / "processes" / "bad.json").write_text("{")
    add_process(folder, sleeper())
    wait_ready(folder, "sleeper")
    eventually(lambda: running("nothing", folder).restarts and running("nowhere", folder).restarts)
    assert running("nothing", folder).exit_code == 127
    assert "/no/such/program" in client.log_tail(Layout.of(folder), "nothing")


def test_stubborn_process_and_its_children_are_killed_after_the_grace(folder):
    stubborn = ProcessSpec("stubborn", ("/bin/sh", "-c", "trap '' TERM; sleep 600 & echo $!; wait; wait"), grace=0.3)
    add_process(folder, stubborn)
    state = wait_ready(folder, "stubborn")
    log = Layout.of(folder).log("stubborn")
    grandchild = Identity.of(int(eventually(log.read_text)))
    assert grandchild.alive
    remove_process(folder, "stubborn")
    assert not state.identity.alive
    eventually(lambda: not grandchild.alive)


def test_higher_stages_end_first(folder, tmp_path):
    order = tmp_path / "order"
    for stage in (0, 1, 2):
        script = (
            f"trap 'echo {stage} >> {shlex.quote(str(order))}; exit' TERM; touch {tmp_path}/up{stage}; sleep 600 & wait"
        )
        ready = Ready(files=(f"{tmp_path}/up{stage}",))
        add_process(folder, ProcessSpec(f"s{stage}", ("/bin/sh", "-c", script), stage=stage, ready=ready))
    for stage in (0, 1, 2):
        wait_ready(folder, f"s{stage}")
    assert down(folder)
    assert order.read_text().split() == ["2", "1", "0"]
    assert not folder.exists()


def test_killed_supervisor_leaves_nothing_that_down_does_not_find(folder):
    add_process(folder, ProcessSpec("parent", ("/bin/sh", "-c", "sleep 600 & echo $!; wait")))
    for name in ("a", "b"):
        add_process(folder, sleeper(name))
    states = [wait_ready(folder, name) for name in ("a", "b", "parent")]
    eventually(Layout.of(folder).log("parent").read_text)
    supervisor = read_state(folder / "state.json").supervisor
    supervisor.signal(signal.SIGKILL)
    eventually(lambda: not supervisor.alive)
    assert all(state.identity.alive for state in states)
    grandchild = Identity.of(int(Layout.of(folder).log("parent").read_text()))
    assert grandchild.alive
    assert not status(folder).up
    with pytest.raises(UserError, match="no control plane runs"):
        add_process(folder, sleeper("c"))
    assert down(folder)
    assert not any(state.identity.alive for state in states)
    assert not grandchild.alive
    assert not folder.exists()


def test_supervisor_killed_at_any_moment_leaves_no_unrecorded_process(folder, tmp_path):
    mark = tmp_path / "mark"
    supervisor = read_state(folder / "state.json").supervisor
    for n in range(8):
        name = f"p{n}"
        write_atomically(Layout.of(folder).spec(name), sleeper(name, env={"MARK": str(mark)}).to_json())
    supervisor.signal(signal.SIGHUP)
    eventually(lambda: read_state(folder / "state.json").processes)
    supervisor.signal(signal.SIGKILL)
    down(folder)

    def ours():
        found = []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"MARK={mark}".encode() in entry.read_bytes().split(b"\0"):
                    found.append(entry)
            except OSError:
                continue
        return found

    eventually(lambda: not ours())


def test_recycled_pid_is_never_killed(tmp_path):
    layout = Layout.of(tmp_path / "run")
    layout.root.mkdir()
    with subprocess.Popen(["/bin/sleep", "600"], start_new_session=True) as innocent:
        real = Identity.of(innocent.pid)
        stale = replace(real, start_time=real.start_time - 7)
        state = State(stale, {"etcd": ProcessState("etcd", "d", "ready", stale, grace=0.1)})
        write_atomically(layout.state, state.to_json())
        assert not status(layout.root).up
        assert down(layout.root)
        assert innocent.poll() is None
        innocent.kill()
    assert not layout.root.exists()


def test_down_leaves_what_is_not_its_own(folder):
    (folder / "bench.json").write_text("{}")
    assert down(folder)
    assert [path.name for path in folder.iterdir()] == ["bench.json"]
    assert not down(folder)
    (folder / "bench.json").unlink()
    folder.rmdir()
    assert not down(folder)


def test_second_supervisor_gives_way(folder):
    done = subprocess.run(
        [sys.executable, "-m", "sim.controlplane.supervisor", "--dir", str(folder)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 3
    assert client.running(Layout.of(folder))


def test_unusable_directory_is_a_persons_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot use"):
        up(tmp_path / "file" / "run")


# --- the real thing ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plane(worker_plane):
    """One control plane for all tests that do not break it."""
    return worker_plane.take("whole", planes.plane)


def kubectl(plane, *args, stdin=None):
    argv = [plane.kubectl, f"--kubeconfig={plane.kubeconfig}", *args]
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def get(plane, *args):
    return json.loads(kubectl(plane, "get", "-o", "json", *args))


def apply(plane, *objects):
    kubectl(plane, "apply", "-f-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def node(name, fake=True):
    annotations = {"kwok.x-k8s.io/node": "fake", "sim.gpu.deckhouse.io/heartbeat": "1s"} if fake else {}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def pod(name, resources=None, **spec):
    container = {"name": "main", "image": "none", "resources": {"limits": resources or {}}}
    metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def condition(obj, kind):
    return next((c for c in obj["status"].get("conditions", []) if c["type"] == kind), {"status": "absent"})


cluster = pytest.mark.cluster


@cluster
def test_a_person_finds_it(plane):
    assert plane.kubeconfig == plane.dir / "kubeconfig"
    assert plane.kubeconfig.stat().st_mode & 0o077 == 0
    assert load(plane.dir) == plane
    assert status(plane.dir).up
    assert (plane.dir / "logs" / "kube-apiserver.log").stat().st_size
    versions = json.loads(kubectl(plane, "version", "-o", "json"))
    assert versions["serverVersion"]["gitVersion"] == versions["clientVersion"]["gitVersion"] != "v0.0.0"
    assert "insecure" not in plane.kubeconfig.read_text()
    with pytest.raises(UserError, match="is up in"):
        up(plane.dir)


@cluster
def test_daemonset_pod_runs_on_a_kwok_node_and_no_other(plane):
    apply(plane, node("ds-1"), node("bare", fake=False))
    template = pod("ds")
    sidecar = [{"name": "side", "image": "none", "restartPolicy": "Always"}, {"name": "init", "image": "none"}]
    spec = template["spec"] | {"initContainers": sidecar, "nodeSelector": {"kubernetes.io/hostname": "ds-1"}}
    kubectl(plane, "label", "node", "ds-1", "kubernetes.io/hostname=ds-1")
    daemonset = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "ds", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "ds"}},
            "template": {"metadata": {"labels": {"app": "ds"}}, "spec": spec},
        },
    }
    apply(plane, daemonset)

    def ready():
        items = get(plane, "pods", "-lapp=ds")["items"]
        return [p for p in items if condition(p, "Ready")["status"] == "True"]

    (found,) = eventually(ready)
    state = found["status"]
    assert state["phase"] == "Running"
    assert state["podIP"]
    assert state["hostIP"]
    assert state["startTime"]
    assert [c["ready"] for c in state["containerStatuses"] + state["initContainerStatuses"]] == [True] * 3
    assert set(state["initContainerStatuses"][0]["state"]) == {"running"}
    assert set(state["initContainerStatuses"][1]["state"]) == {"terminated"}
    assert condition(found, "PodScheduled")["status"] == "True"
    assert condition(get(plane, "node", "bare"), "Ready")["status"] != "True"
    eventually(lambda: get(plane, "daemonset", "ds")["status"].get("numberReady") == 1)
    kubectl(plane, "delete", "daemonset", "ds", "--wait=true")
    eventually(lambda: get(plane, "pods", "-lapp=ds")["items"] == [])


@cluster
def test_extended_resource_is_scheduled_once_patched_and_survives_heartbeats(plane):
    apply(plane, node("gpu-1"))
    eventually(lambda: condition(get(plane, "node", "gpu-1"), "Ready")["status"] == "True")
    resource = "gpu.deckhouse.io/demo"
    apply(plane, pod("wants", {resource: "1"}))
    unschedulable = eventually(lambda: condition(get(plane, "pod", "wants"), "PodScheduled").get("reason"))
    assert unschedulable == "Unschedulable"
    patch = {"status": {"capacity": {resource: "2"}, "allocatable": {resource: "2"}}}
    kubectl(plane, "patch", "node", "gpu-1", "--subresource=status", "--type=merge", "-p", json.dumps(patch))
    eventually(lambda: get(plane, "pod", "wants")["status"]["phase"] == "Running")

    def beat():
        return condition(get(plane, "node", "gpu-1"), "Ready")["lastHeartbeatTime"]

    before = beat()
    eventually(lambda: beat() != before)
    state = get(plane, "node", "gpu-1")["status"]
    assert state["capacity"][resource] == state["allocatable"][resource] == "2"
    assert state["capacity"]["cpu"] == "64"


@cluster
def test_boot_id_is_stable_and_a_given_one_is_kept(plane):
    apply(plane, node("boot-1"), node("boot-2"), node("boot-3"))
    kubectl(plane, "patch", "node", "boot-3", "--subresource=status", "--type=merge", "-p",
            '{"status":{"nodeInfo":{"bootID":"mine"},"conditions":[{"type":"Ready","status":"False"}]}}')  # fmt: skip

    def boots():
        nodes = [get(plane, "node", f"boot-{n}") for n in (1, 2, 3)]
        ready = all(condition(n, "Ready")["status"] == "True" for n in nodes)
        return ready and [n["status"]["nodeInfo"]["bootID"] for n in nodes]

    first = eventually(boots)
    assert len(set(first)) == 3
    assert "mine" in first
    kubectl(plane, "patch", "node", "boot-1", "--subresource=status", "--type=strategic", "-p",
            '{"status":{"conditions":[{"type":"Ready","status":"False"}]}}')  # fmt: skip
    assert eventually(boots) == first


@cluster
def test_only_pods_of_jobs_complete(plane):
    apply(plane, node("job-1"))
    template = {"spec": pod("x")["spec"] | {"restartPolicy": "Never"}, "metadata": {"labels": {"app": "job"}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": "default"}}
    apply(plane, job | {"spec": {"template": template}}, pod("stays"))
    eventually(lambda: get(plane, "job", "job")["status"].get("succeeded") == 1)
    assert get(plane, "pod", "stays")["status"]["phase"] == "Running"


@cluster
def test_components_speak_for_themselves_only(plane):
    scheduler = plane.dir / "pki" / "kube-scheduler.kubeconfig"
    asked = kubectl(replace(plane, kubeconfig=scheduler), "auth", "whoami", "-o", "json")
    assert json.loads(asked)["status"]["userInfo"]["username"] == "system:kube-scheduler"


@cluster
def test_killed_apiserver_comes_back_with_its_data(plane):
    before = running("kube-apiserver", plane.dir)
    kubectl(plane, "create", "configmap", "kept", "--from-literal=a=b")
    os.kill(before.pid, signal.SIGKILL)
    eventually(lambda: (p := running("kube-apiserver", plane.dir)).restarts == 1 and p.phase == "ready" and p)
    assert get(plane, "configmap", "kept")["data"] == {"a": "b"}
    eventually(lambda: all(p.phase == "ready" for p in status(plane.dir).processes.values()))


@cluster
def test_two_directories_know_nothing_of_each_other(plane, tmp_path):
    only_api = {"with_controller_manager": False, "with_scheduler": False, "with_kwok": False}
    policy = tmp_path / "policy.json"
    policy.write_text('{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"Metadata"}]}')
    other = up(tmp_path / "run", audit_policy=policy, extra_apiserver_flags=["--profiling=false"], **only_api)
    try:
        assert set(other.ports.values()).isdisjoint(plane.ports.values())
        assert other.processes == ("etcd", "kube-apiserver")
        kubectl(other, "create", "namespace", "only-here")
        assert "only-here" not in kubectl(plane, "get", "namespaces")
        assert "only-here" in (other.dir / "logs" / "audit.log").read_text()
        argv = Path(f"/proc/{running('kube-apiserver', other.dir).pid}/cmdline").read_text()
        assert "--profiling=false" in argv
        identities = [p.identity for p in status(other.dir).processes.values()]
        supervisor = read_state(other.dir / "state.json").supervisor
        supervisor.signal(signal.SIGKILL)
        eventually(lambda: not supervisor.alive)
    finally:
        assert down(other.dir)
    assert not any(identity.alive for identity in identities)
    assert not other.dir.exists()
    assert status(plane.dir).up
    assert kubectl(plane, "get", "--raw", "/readyz") == "ok"


@cluster
def test_component_that_cannot_start_is_told_with_its_log(tmp_path):
    with pytest.raises(UserError, match="unknown flag: --nonsense"):
        up(tmp_path / "run", extra_apiserver_flags=["--nonsense"])
    assert not status(tmp_path / "run").up
    assert (tmp_path / "run" / "logs" / "kube-apiserver.log").exists()
    down(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@cluster
def test_taken_ports_are_chosen_anew(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bad = [*free_ports(5), 0]
        bad[0] = taken.getsockname()[1]
        answers = iter([bad[:5] + free_ports(1), free_ports(6)])
        monkeypatch.setattr("sim.controlplane.lifecycle.free_ports", lambda _: next(answers))
        only_api = {"with_controller_manager": False, "with_scheduler": False, "with_kwok": False}
        plane = up(tmp_path / "run", **only_api)
        assert plane.ports["etcd"] != bad[0]
    assert down(plane.dir)


@cluster
def test_down_of_a_whole_control_plane_leaves_no_process_and_no_data(tmp_path):
    plane = up(tmp_path / "run")
    processes = status(plane.dir).processes
    assert set(processes) == set(plane.processes)
    identities = [p.identity for p in processes.values()]
    assert all(identity.alive for identity in identities)
    assert down(plane.dir)
    assert not any(identity.alive for identity in identities)
    assert not plane.dir.exists()
