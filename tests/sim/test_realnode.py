"""What a real node is made of, as far as it can be said without one."""

from __future__ import annotations

import hashlib
import json
import socket
import tarfile
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from cryptography import x509

from sim.controlplane import pki
from sim.realnode import containerd, crio, distribution, hostfolders, image, kubelet, needs
from sim.realnode.places import Places
from sim.realnode.registry import Registry


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "node")


def test_every_blob_of_the_images_has_the_digest_that_names_it(tmp_path: Path):
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    image.write(tmp_path / "images.tar", program)
    with tarfile.open(tmp_path / "images.tar") as tar:
        files = {name: tar.extractfile(name).read() for name in tar.getnames()}
    blobs = {name.rpartition("/")[2]: content for name, content in files.items() if name.startswith("blobs/")}
    assert all(hashlib.sha256(content).hexdigest() == digest for digest, content in blobs.items())
    manifests = json.loads(files["index.json"])["manifests"]
    assert {m["annotations"]["io.containerd.image.name"] for m in manifests} == {image.PAUSE, image.SHOW, image.AGENT}
    for entry in manifests:
        manifest = json.loads(blobs[entry["digest"].removeprefix("sha256:")])
        config = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
        assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
        assert config["config"]["Entrypoint"] == [image.ENTRYPOINTS[entry["annotations"]["io.containerd.image.name"]]]


def test_the_configuration_of_containerd_keeps_everything_in_the_node_s_folder(places: Places):
    config = tomllib.loads(containerd.config(places, Path("/usr/lib/cni")))
    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    inside = [config["root"], config["state"], config["grpc"]["address"], cri["cni"]["conf_dir"], *cri["cdi_spec_dirs"]]
    inside += [runtime["options"]["Root"] for runtime in cri["containerd"]["runtimes"].values()]
    assert all(Path(path).is_relative_to(places.root) for path in inside)
    assert set(cri["containerd"]["runtimes"]) == {"runc", "nvidia", "nvidia-cdi"}, "handlers of our RuntimeClasses"
    assert cri["enable_cdi"]
    assert config["plugins"]["io.containerd.nri.v1.nri"] == {"disable": True}, "it would take the machine's socket"
    assert cri["sandbox_image"] == image.PAUSE


def test_a_containerd_that_knows_no_cdi_is_told_nothing_of_it(places: Places):
    cri = tomllib.loads(containerd.config(places, Path("/usr/lib/cni"), cdi=False))["plugins"][
        "io.containerd.grpc.v1.cri"
    ]
    assert not [key for key in cri if "cdi" in key]


def test_the_configuration_of_cri_o_keeps_everything_in_the_node_s_folder(places: Places):
    helpers = {name: Path("/usr/bin") / name for name in ("conmon", "pinns", "runc")}
    files = crio.files(places, Path("/usr/lib/cni"), helpers, "127.0.0.1:5000")
    config = tomllib.loads(files[crio.CONFIG])["crio"]
    runtime = config["runtime"]
    kept = [value for value in config.values() if isinstance(value, str) and value.startswith("/")]
    kept += [runtime[f"{name}_dir"] for name in ("namespaces", "container_exits", "container_attach_socket")]
    kept += [config["api"]["listen"], config["network"]["network_dir"]]
    kept += [config["image"][key] for key in ("signature_policy", "signature_policy_dir")]
    storage = tomllib.loads(files[crio.STORAGE])["storage"]
    kept += [storage["graphroot"], storage["runroot"]]
    kept += [*runtime["cdi_spec_dirs"], *(one["runtime_root"] for one in runtime["runtimes"].values())]
    assert all(Path(path).is_relative_to(places.root) for path in kept)
    assert set(runtime["runtimes"]) == {"runc", "nvidia", "nvidia-cdi"}, "handlers of our RuntimeClasses"
    assert config["nri"] == {"enable_nri": False}
    assert tomllib.loads(files[crio.REGISTRIES])["registry"] == [
        {"prefix": image.HOST, "location": "127.0.0.1:5000", "insecure": True}
    ]
    told = [*crio.command(places, Path("/crio")), *crio.environment(places).values(), *files.values()]
    assert all(str(places.crio / name) in " ".join(told) for name in files)


def test_the_registry_gives_an_image_by_name_and_by_digest_and_knows_no_other(tmp_path: Path):
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    image.write(tmp_path / "images.tar", program)
    registry = Registry((tmp_path / "images.tar",))

    def get(path: str) -> bytes:
        with urllib.request.urlopen(f"http://{registry.name}/v2/{path}", timeout=10) as answer:
            return bytes(answer.read())

    try:
        manifest = get("e2e/show/manifests/1")
        assert get(f"e2e/show/manifests/sha256:{hashlib.sha256(manifest).hexdigest()}") == manifest
        for part in (json.loads(manifest)["config"], *json.loads(manifest)["layers"]):
            digest = part["digest"]
            assert f"sha256:{hashlib.sha256(get(f'e2e/show/blobs/{digest}')).hexdigest()}" == digest
        assert get("")
        for unknown in ("e2e/show/manifests/2", "e2e/absent/manifests/1", "e2e/show/blobs/sha256:00"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                get(unknown)
    finally:
        registry.close()


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3", "1.6.20"),
        ("containerd github.com/containerd/containerd v1.7.35 0123abc", ""),
        ("containerd github.com/containerd/containerd/v2 2.1.6", ""),
    ],
)
def test_only_a_containerd_1_6_is_debian_s(tmp_path: Path, says: str, version: str):
    program = tmp_path / "containerd"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    assert distribution.version(program) == version
    assert distribution.version(tmp_path / "absent") == ""


def test_folders_that_the_machine_had_and_what_lies_in_others_stay(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    had, empty, filled = (tmp_path / name for name in ("had", "empty", "filled"))
    link = tmp_path / "lib" / "pod-resources"
    monkeypatch.setattr(hostfolders, "MADE_BY_KUBELET", (had, empty, filled))
    monkeypatch.setattr(hostfolders, "POD_RESOURCES", link)
    monkeypatch.setattr(hostfolders, "SHARED", tmp_path / "shared")
    monkeypatch.setattr(hostfolders, "PLUGINS", link.with_name("device-plugins"))
    had.mkdir()
    places.root.mkdir()
    hostfolders.prepare(places)
    assert link.readlink() == places.pod_resources.parent
    for folder in (empty, filled):
        folder.mkdir()
    (filled / "file").touch()
    hostfolders.forget(places)
    hostfolders.forget_plugins()
    assert [folder.exists() for folder in (had, empty, filled, link.parent)] == [True, False, True, False]


def test_kubelet_listens_on_loopback_and_lets_in_nobody_without_a_certificate(places: Places):
    config = json.loads(kubelet.config(places, Path("/ca.crt"), {"https": 1, "healthz": 2}))
    assert config["address"] == config["healthzBindAddress"] == "127.0.0.1"
    assert not config["authentication"]["anonymous"]["enabled"]
    assert config["authentication"]["x509"] == {"clientCAFile": "/ca.crt"}
    assert config.get("readOnlyPort", 0) == 0


def test_a_machine_that_cannot_run_a_node_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "root" in needs.lacking()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(needs, "PLUGINS", tmp_path / "kubelet" / "device-plugins")
    monkeypatch.setattr(needs.shutil, "which", lambda name: None if name == "runc" else f"/usr/bin/{name}")
    monkeypatch.setattr(needs, "CNI_PLUGINS", ())
    assert "runc" in needs.lacking()
    assert "make e2e-tools" in needs.lacking()
    monkeypatch.setattr(needs.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(needs, "_may", lambda: False)
    assert "namespaces" in needs.lacking()
    monkeypatch.setattr(needs, "_may", lambda: True)
    assert needs.lacking() == ""
    (tmp_path / "kubelet" / "device-plugins").mkdir(parents=True)
    assert needs.lacking() == "", "what an earlier node of ours left"
    (tmp_path / "kubelet" / "pki").mkdir()
    assert "node of a cluster" in needs.lacking()


def test_a_kubelet_that_runs_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "k" / "p"
    folder.mkdir(parents=True)

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(needs, "PLUGINS", folder)
    monkeypatch.setattr(needs.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(needs, "CNI_PLUGINS", ())
    monkeypatch.setattr(needs, "_may", lambda: True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "kubelet.sock"))
        assert needs.lacking() == f"this machine is a node of a cluster: {folder.parent} holds p"
        server.listen()
        assert "a kubelet runs" in needs.lacking()


def test_an_authority_that_was_loaded_signs_for_the_same_clients(tmp_path: Path):
    pki.Authority.create(tmp_path)
    pki.Authority.load(tmp_path).client("kubelet", "system:node:a", "system:nodes")
    ca, made = (x509.load_pem_x509_certificate((tmp_path / f"{name}.crt").read_bytes()) for name in ("ca", "kubelet"))
    made.verify_directly_issued_by(ca)
    assert made.subject.rfc4514_string() == "O=system:nodes,CN=system:node:a"
