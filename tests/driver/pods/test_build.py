"""The pods of drivers: as reviewed, and what holds for all of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api import names
from controllers.api.gpudriver import Proxy
from controllers.domain.driver.choice import Install
from controllers.domain.driver.variant import Variant
from controllers.driver.pods import build, checks
from controllers.driver.pods.common import driver_label
from controllers.driver.pods.inputs import Files
from tests.driver.pods.make import AGENT, CLUSTER_PROXY, COMPILED, EVERYTHING, FILES, PRECOMPILED, RHEL, driver

GOLDEN = Path(__file__).parent / "golden"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))
SMALL = driver()
BUILT: dict[str, Any] = {
    "compiled": build.daemonset(SMALL, COMPILED, AGENT),
    "precompiled": build.daemonset(SMALL, PRECOMPILED, AGENT),
    "rhel": build.daemonset(SMALL, RHEL, AGENT, cluster_proxy=CLUSTER_PROXY),
    "everything": build.daemonset(EVERYTHING, COMPILED, AGENT, files=FILES, reboot_sentinel=True),
    "config-everything": build.configmap(EVERYTHING, COMPILED, files=FILES),
    "check-compiled": checks.check_pod(SMALL, "gpu-1", COMPILED, AGENT),
    "check-precompiled": checks.check_pod(SMALL, "gpu-1", PRECOMPILED, AGENT),
    "check-everything": checks.check_pod(EVERYTHING, "gpu-1", COMPILED, AGENT, files=FILES),
}
DAEMONSETS = ("compiled", "precompiled", "rhel", "everything")
CHECKS = tuple(name for name in BUILT if name.startswith("check-"))


def pod(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = BUILT[name]["spec"]
    return spec["template"]["spec"] if name in DAEMONSETS else spec


def containers(name: str) -> dict[str, Any]:
    made = pod(name)
    return {one["name"]: one for one in [*made.get("initContainers", ()), *made["containers"]]}


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


class Written(yaml.SafeDumper):
    """Scripts as blocks of lines, for the reader of the golden file."""


Written.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)
Written.ignore_aliases = lambda *_: True  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize("name", sorted(BUILT))
def test_objects_are_as_reviewed(name: str) -> None:
    """`UPDATE_GOLDEN=1` writes them anew; the difference is then reviewed with the change."""
    text = yaml.dump(BUILT[name], Dumper=Written, sort_keys=True, width=120)
    file = GOLDEN / f"{name}.yaml"
    if UPDATE:
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text)

    assert yaml.safe_load(text) == BUILT[name]
    assert text == file.read_text()


@pytest.mark.parametrize("name", [*DAEMONSETS, *CHECKS])
def test_no_pod_of_a_driver_has_a_token_and_each_runs_wherever_it_is_sent(name: str) -> None:
    made = pod(name)
    assert made["automountServiceAccountToken"] is False
    assert made["imagePullSecrets"][-1] == {"name": "deckhouse-registry"}, "the agent's image is the module's"
    assert "serviceAccountName" not in made
    assert made["tolerations"] == [{"operator": "Exists"}]
    assert made["priorityClassName"] == "system-node-critical"
    assert made["hostPID"] is True, "processes of the host are seen, and a shell that sleeps ends when it is told to"


@pytest.mark.parametrize("name", [*DAEMONSETS, *CHECKS])
def test_what_is_mounted_is_there_and_nothing_else(name: str) -> None:
    made = pod(name)
    mounted = {one["name"] for container in containers(name).values() for one in container.get("volumeMounts", ())}
    assert mounted == {one["name"] for one in made["volumes"]}
    for container in containers(name).values():
        paths = [one["mountPath"] for one in container.get("volumeMounts", ())]
        assert len(paths) == len(set(paths))


@pytest.mark.parametrize("name", [*DAEMONSETS, *CHECKS])
def test_no_container_gets_cards_and_each_asks_for_something(name: str) -> None:
    for container in containers(name).values():
        assert environment(container)[names.VISIBLE_DEVICES] == names.NO_DEVICES
        assert container["resources"]["requests"]["memory"]
        assert ":" in container["image"]


@pytest.mark.parametrize("name", DAEMONSETS)
def test_a_daemonset_goes_where_the_nodes_label_says_and_restarts_nothing(name: str) -> None:
    spec = BUILT[name]["spec"]
    variant = BUILT[name]["metadata"]["labels"][names.DRIVER_VARIANT]
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert pod(name)["nodeSelector"] == {names.DRIVER_VARIANT: variant}
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert "ownerReferences" not in BUILT[name]["metadata"], "no driver goes with the object that asked for it"
    driver_container = containers(name)["nvidia-driver-ctr"]
    assert "livenessProbe" not in driver_container
    assert driver_container["terminationMessagePolicy"] == "FallbackToLogsOnError"


@pytest.mark.parametrize("name", DAEMONSETS)
def test_only_the_containers_that_bring_modules_are_privileged_beside_the_agents(name: str) -> None:
    assert all(one["securityContext"]["privileged"] for one in containers(name).values())
    assert set(containers(name)) <= {
        "prepare",
        "nvidia-driver-ctr",
        "nvidia-peermem-ctr",
        "nvidia-fs-ctr",
        "nvidia-gdrcopy-ctr",
    }


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_changes_nothing_and_ends(name: str) -> None:
    made = pod(name)
    assert made["restartPolicy"] == "Never"
    assert made["activeDeadlineSeconds"] > 0
    assert made["nodeName"] == "gpu-1"
    (owner,) = BUILT[name]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"]) == ("GPUDriver", True), "no DaemonSet adopts it"
    for container in containers(name).values():
        assert all(one["readOnly"] for one in container.get("volumeMounts", ()))
    privileged = [one["name"] for one in containers(name).values() if "securityContext" in one]
    assert privileged == ["look"], "no image of NVIDIA's has a privilege here"


def test_a_variant_of_another_kernel_has_another_object_and_another_digest() -> None:
    other = Install(
        Variant(PRECOMPILED.variant.revision, "ubuntu24.04", "6.8.0-90-generic"), "Precompiled", "r/d:t", "580"
    )
    one, two = (build.daemonset(SMALL, choice, AGENT) for choice in (PRECOMPILED, other))
    assert one["spec"]["selector"] != two["spec"]["selector"]
    digests = [
        environment(each["spec"]["template"]["spec"]["containers"][0])["DRIVER_CONFIG_DIGEST"] for each in (one, two)
    ]
    assert digests[0] != digests[1]


def test_the_repositories_of_a_precompiled_driver_are_not_asked_for() -> None:
    """Its packages are in the image."""
    assert build.configmap(SMALL, PRECOMPILED, files=FILES) is None
    assert pod("check-precompiled")["containers"][0]["command"] == ["true"]


def test_what_a_driver_asks_for_is_laid_over_what_is_modest() -> None:
    of_driver = containers("everything")["nvidia-driver-ctr"]["resources"]
    assert of_driver["requests"] == {"cpu": "100m", "ephemeral-storage": "50Mi", "memory": "2Gi"}
    assert of_driver["limits"] == {"cpu": "4", "memory": "8Gi"}
    assert "limits" not in containers("compiled")["nvidia-driver-ctr"]["resources"]
    assert "limits" not in containers("everything")["nvidia-fs-ctr"]["resources"], "they are the driver's container's"


def test_modules_beside_the_driver_have_images_by_tag_or_by_digest_and_a_check_pulls_each() -> None:
    digest = "nvcr.io/nvidia/cloud-native/nvidia-fs@sha256:" + "a" * 64
    wants = driver(gds={"enabled": True, "image": digest}, gdrcopy={"enabled": True, "image": "r/g", "version": "v2"})
    made = build.daemonset(wants, COMPILED, AGENT)["spec"]["template"]["spec"]["containers"]
    images = {one["image"] for one in made}
    assert images == {COMPILED.image, digest, "r/g:v2-ubuntu24.04"}
    check = checks.check_pod(wants, "gpu-1", COMPILED, AGENT)["spec"]["containers"]
    assert {one["image"] for one in check} == images | {AGENT}


@pytest.mark.parametrize("name", DAEMONSETS)
def test_prepare_sees_what_is_mounted_on_the_host_meanwhile_and_writes_nothing_but_the_drivers_files(name: str) -> None:
    mounts = {one["mountPath"]: one for one in containers(name)["prepare"]["volumeMounts"]}
    assert mounts["/host"]["mountPropagation"] == "HostToContainer", "MOFED's container mounts its root there"
    written = {path for path, one in mounts.items() if not one.get("readOnly")}
    assert written <= {"/run/nvidia", "/host-run"}


def test_a_drivers_own_proxies_come_before_the_clusters() -> None:
    own = driver(build={"proxy": {"http": "http://own:1"}})
    made = build.daemonset(own, COMPILED, AGENT, cluster_proxy=CLUSTER_PROXY)
    told = environment(made["spec"]["template"]["spec"]["containers"][0])
    assert {key: value for key, value in told.items() if "proxy" in key.lower()} == {
        "HTTP_PROXY": "http://own:1",
        "http_proxy": "http://own:1",
    }


def test_the_clusters_proxies_can_be_turned_off() -> None:
    own = driver(build={"useClusterProxy": False})
    made = build.daemonset(own, COMPILED, AGENT, cluster_proxy=Proxy(http="http://proxy:3128"))
    assert "HTTP_PROXY" not in environment(made["spec"]["template"]["spec"]["containers"][0])


@pytest.mark.parametrize("name", DAEMONSETS)
def test_no_start_up_probe_ends_a_container_while_the_node_may_still_be_installing(name: str) -> None:
    """A container that is ended then begins anew, with all that it had compiled gone."""
    probes = [one["startupProbe"] for one in containers(name).values() if "startupProbe" in one]
    assert probes
    for probe in probes:
        allowed = probe["initialDelaySeconds"] + probe["periodSeconds"] * probe["failureThreshold"]
        assert allowed >= 30 * 60


@pytest.mark.parametrize("system", ["astra1.8", "altlinux10.2", "redos8.0", "debian12", "ubuntu24.04", "sles15.6"])
def test_repositories_and_certificates_reach_every_system_that_has_folders_for_them(system: str) -> None:
    choice = Install(Variant("0123456789", system), "Compiled", "r/d:t", "580.178.04")
    made = build.configmap(SMALL, choice, files=FILES)
    assert made is not None
    assert sorted(made["data"]) == ["certificate-0", "repository-0"]


@pytest.mark.parametrize("system", ["flatcar4230.2.1", "debian12", "9", ""])
def test_a_system_whose_folders_nobody_knows_gets_none_of_these_files(system: str) -> None:
    choice = Install(Variant("0123456789", system), "Compiled", "r/d:t", "580.178.04")
    made = build.configmap(SMALL, choice, files=Files({"a.repo": "x"}, {}))
    assert (made is None) is not system.startswith("debian")


def test_labels_are_labels_whatever_the_driver_is_called() -> None:
    long = driver("a" * 253)
    label = build.daemonset(long, COMPILED, AGENT)["metadata"]["labels"][names.LABEL_DRIVER]
    assert len(label) == 63
    assert driver_label("a" * 252) != label
    assert driver_label("all") == "all"


def test_the_name_of_a_check_tells_node_and_variant_and_is_short_enough() -> None:
    made = {checks.check_name(node, choice) for node in ("gpu-1", "gpu-2") for choice in (COMPILED, PRECOMPILED)}
    assert len(made) == 4
    assert len(checks.check_name("n." * 126, COMPILED)) < 253
    assert checks.check_name("gpu-1", COMPILED).startswith("gpu-driver-check-gpu-1-")
