"""What the administrator may change in a component, and what is refused with which sentence."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api import names, resources
from controllers.api.component_settings import ComponentSettings
from controllers.api.components import COMPONENTS, OWN_ENV
from controllers.api.image_reference import split_reference
from controllers.api.quantity import amount, canonical
from controllers.api.settings import HealthSettings, MonitoringSettings, Settings, parse_settings
from controllers.bootstrap.preparation.phases import PHASES
from controllers.components import build
from controllers.components.images import reference
from controllers.runtime.drift import covers

if TYPE_CHECKING:
    from tests.inventory.plane import Plane

DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGES = {one.name: one.image for one in COMPONENTS}
USUAL = IMAGES["dcgm"]
KEYS = {
    "driver-validator": "driverValidator", "toolkit": "toolkit", "gfd": "gfd", "dcgm": "dcgm",
    "dcgm-exporter": "dcgmExporter", "validator": "validator",
}  # fmt: skip


def bootstrap(component: str = "dcgm", **chosen: Any) -> Any:
    return parse_settings({"bootstrap": {KEYS[component]: chosen}}).bootstrap


def container(component: str = "dcgm", **chosen: Any) -> dict[str, Any]:
    made = build.daemonsets(bootstrap(component, **chosen))[build.object_name(component)]
    one, *_ = made["spec"]["template"]["spec"]["containers"]  # the component; what helps it takes no setting
    return dict(one)


@pytest.mark.parametrize(
    ("chosen", "image"),
    [
        ({}, USUAL),
        ({"version": "4.7.0-1-ubi10"}, "nvcr.io/nvidia/cloud-native/dcgm:4.7.0-1-ubi10"),
        ({"version": DIGEST}, f"nvcr.io/nvidia/cloud-native/dcgm@{DIGEST}"),
        ({"version": f"4.7.0@{DIGEST}"}, f"nvcr.io/nvidia/cloud-native/dcgm:4.7.0@{DIGEST}"),
        ({"repository": "mirror.local:5000/gpu"}, "mirror.local:5000/gpu/dcgm:4.6.0-1-ubuntu24.04"),
        ({"repository": "mirror.local", "image": "ours", "version": "v1"}, "mirror.local/ours:v1"),
        ({"repository": "mirror.local", "image": "gpu/dcgm"}, "mirror.local/gpu/dcgm:4.6.0-1-ubuntu24.04"),
        ({"image": "gpu/dcgm"}, "gpu/dcgm:4.6.0-1-ubuntu24.04"),
        ({"image": "ours"}, "nvcr.io/nvidia/cloud-native/ours:4.6.0-1-ubuntu24.04"),
        ({"image": "mirror.local:5000/dcgm"}, "mirror.local:5000/dcgm:4.6.0-1-ubuntu24.04"),
        ({"image": "mirror.local:5000/dcgm", "version": "v2"}, "mirror.local:5000/dcgm:v2"),
        # Whole references stand as they are.
        ({"image": "mirror.local:5000/dcgm:v2"}, "mirror.local:5000/dcgm:v2"),
        ({"image": "dcgm:v2"}, "dcgm:v2"),
        ({"image": f"mirror.local/dcgm@{DIGEST}"}, f"mirror.local/dcgm@{DIGEST}"),
        ({"image": f"mirror.local/dcgm:v2@{DIGEST}"}, f"mirror.local/dcgm:v2@{DIGEST}"),
    ],
)
def test_an_image_is_put_together_from_what_is_set(chosen: dict[str, Any], image: str) -> None:
    assert container(**chosen)["image"] == image


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_every_component_takes_every_setting(phase: Any) -> None:
    usual = container(phase.name)
    made = container(
        phase.name,
        version="v9",
        args=["--more"],
        env=[{"name": "MORE", "value": "1"}],
        resources={"limits": {"cpu": "1"}},
    )

    assert made["image"] == f"{split_reference(usual['image'])[0]}:v9"
    assert made["args"] == [*usual.get("args", []), "--more"]
    assert made["env"] == [*usual["env"], {"name": "MORE", "value": "1"}]
    assert made["resources"] == {"limits": {"cpu": "1"}}
    same = {"image", "args", "env", "resources"}
    assert {k: v for k, v in made.items() if k not in same} == {k: v for k, v in usual.items() if k not in same}


@pytest.mark.parametrize("agent", ["reg.local:5000/agent", "agent:v1", f"reg.local/a/agent@{DIGEST}"])
def test_the_usual_image_stands_whatever_its_form(agent: str) -> None:
    assert reference(ComponentSettings(), agent) == agent
    assert reference(ComponentSettings(version="v2"), agent) == f"{split_reference(agent)[0]}:v2"


def test_environment_replaces_by_name_and_keeps_its_place() -> None:
    usual, theirs = container("dcgm-exporter"), {"name": "DCGM_EXPORTER_COLLECTORS", "value": "/etc/mine.csv"}
    made = container("dcgm-exporter", env=[theirs, {"name": "EMPTY"}])
    at = [one["name"] for one in usual["env"]].index(theirs["name"])

    assert made["env"][at] == theirs
    assert made["env"][-1] == {"name": "EMPTY"}  # the API server drops an empty value
    assert len(made["env"]) == len(usual["env"]) + 1


def test_what_mounts_and_probes_depend_on_is_ours() -> None:
    """A variable that repeats the path of a mount, what a probe asks, or is found out, cannot change alone."""
    used: set[str] = set()
    tied = {"NODE_NAME", "DCGM_EXPORTER_LISTEN", "HOST_ROOT", "GFD_SLEEP_INTERVAL", "NO_RUNTIME_CONFIG", "DRIVER"}
    tied.add("CDI_OUTPUT_DIR")  # the container beside it keeps the file that would be written there
    for one in map(container, KEYS):
        asked = str([one["readinessProbe"], one["livenessProbe"], one.get("volumeMounts")])
        plain = {variable["name"]: variable.get("value", "") for variable in one["env"]}
        found_out = set(re.findall(r'([A-Z_]+)="\$', str(one.get("command"))))
        tied |= found_out
        used |= set(plain) | found_out
        paths = {name: value for name, value in plain.items() if value.startswith("/") and value != "/"}
        tied |= {name for name, path in paths.items() if re.search(rf"{path}['\s)]", asked)}

    assert tied == OWN_ENV <= used


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"image": "m.local/x:v1", "version": "v2"}, r"m\.local/x:v1 is a whole reference already; leave out version,"),
        (
            {"image": "x:v1", "version": "v2", "repository": "m.local"},
            "leave out repository and version, or write the image without its tag",
        ),
        ({"image": f"m.local/x@{DIGEST}", "repository": "m.local"}, "leave out repository,"),
        ({"image": "m.local/x@sha256:1"}, "is not an image, such as dcgm"),
        ({"image": "m.local/x:"}, "is not an image"),
        ({"image": "https://m.local/x"}, "is not an image"),
        ({"image": "m.local/x:v1\n"}, "is not an image"),
        ({"repository": "m.local/x/"}, "is not a repository, such as"),
        ({"version": "sha256:12"}, "write a tag, such as v1.20.0, or a digest"),
        ({"version": ""}, "is not a version"),
        ({"args": "-n"}, "args"),
        ({"env": [{"name": "A"}, {"name": "B"}, {"name": "A"}]}, "A is given twice; which one is meant"),
        ({"env": [{"name": "A B"}]}, r"env\.0\.name: .*is not the name of an environment variable"),
        ({"env": [{"name": "NODE_NAME", "value": "x"}]}, "NODE_NAME is the module's own"),
        ({"env": [{"name": "A", "valueFrom": {}}]}, "valueFrom"),
        ({"resources": {"limits": {"cpu": "much"}}}, "'much' is not a quantity; write a number with m, Mi, Gi"),
        ({"resources": {"limits": {"memory": "512m"}}}, "memory 512m is not a whole number of bytes of at least 1Mi"),
        ({"resources": {"limits": {"memory": "1.00000001Gi"}}}, "is not a whole number of bytes"),
        ({"resources": {"requests": {"cpu": "0"}}}, "cpu 0 is not a number of cores of at least 1m"),
        ({"resources": {"requests": {"cpu": "0.0005"}}}, "no finer than 1m"),
        ({"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "nvidia.com/gpu is not among what"),
        (
            {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1000Mi"}}},
            r"requests\.memory 1Gi is above limits\.memory 1000Mi",
        ),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_in_a_sentence(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as error:
        bootstrap(**settings)

    assert str(error.value).startswith("bootstrap.dcgm")


@pytest.mark.parametrize(
    ("component", "chosen", "found"),
    [
        ("toolkit", {"version": "v1.18.2"}, "v1.18.2"),
        ("toolkit", {"version": "v1.17.8-ubuntu20.04"}, "v1.17.8-ubuntu20.04"),
        ("toolkit", {"version": f"1.18@{DIGEST}"}, "1.18"),
        ("toolkit", {"image": "mirror.local:5000/nvidia/container-toolkit:v1.18.0"}, "v1.18.0"),
        ("dcgm-exporter", {"version": "3.3.9-3.6.1-ubuntu22.04"}, "3.3.9-3.6.1-ubuntu22.04"),
        ("dcgm-exporter", {"image": "dcgm-exporter:2.4.6-2.6.10"}, "2.4.6-2.6.10"),
        ("dcgm-exporter", {"repository": "mirror.local", "image": "k8s/dcgm-exporter", "version": "3.1.8"}, "3.1.8"),
    ],
)
def test_a_version_that_cannot_work_is_refused_with_the_least_that_can(
    component: str, chosen: dict[str, Any], found: str
) -> None:
    least = {"toolkit": "1.19", "dcgm-exporter": "4.0.0"}[component]
    with pytest.raises(ValueError, match=rf"version {re.escape(found)} is older than {re.escape(least)}") as error:
        bootstrap(component, **chosen)

    assert str(error.value).startswith(f"bootstrap.{KEYS[component]}")


@pytest.mark.parametrize(
    ("component", "chosen"),
    [
        ("toolkit", {"version": "v1.19.0"}),
        ("toolkit", {"version": "v1.20.0-ubi9"}),
        ("toolkit", {"version": "v2.0.0"}),
        ("toolkit", {"version": "latest"}),
        ("toolkit", {"version": "v1"}),
        ("toolkit", {"version": DIGEST}),
        ("toolkit", {"image": "mirror.local/our-toolkit:0.3.1"}),
        ("toolkit", {"enabled": False, "version": "v1.17.8"}),
        ("dcgm-exporter", {"version": "4.0.0-4.0.1"}),
        ("dcgm-exporter", {"version": "4.0"}),
        ("dcgm-exporter", {"image": "mirror.local/telemetry", "version": "1.2.3"}),
        ("dcgm", {"version": "3.3.9-1-ubuntu22.04"}),
    ],
)
def test_a_version_is_judged_only_where_it_is_known_what_it_means(component: str, chosen: dict[str, Any]) -> None:
    assert bootstrap(component, **chosen)


def test_what_the_module_brings_is_no_older_than_it_demands() -> None:
    demanding = [one for one in COMPONENTS if one.minimum is not None]
    assert [one.name for one in demanding] == ["toolkit", "dcgm-exporter"]
    for one in demanding:
        least = one.minimum
        path, version = split_reference(one.image)
        assert path.rpartition("/")[2] == least.image
        chosen = ComponentSettings(image=path, version=version)
        assert least.suffices(chosen) is chosen


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"bootstrap": {"monitoring": {"missingAfter": "29s"}}}, r"\(29s\) is less than two scrape periods of 15s"),
        ({"bootstrap": {"monitoring": {"readyAfter": 0}}}, r"bootstrap\.monitoring\.readyAfter"),
        ({"health": {"temperatureClearC": 95}}, r"temperatureClearC \(95\) is not below temperatureFaultC \(95\)"),
        ({"health": {"temperatureFaultC": 80}}, r"\(85\) is not below temperatureFaultC \(80\)"),
        ({"health": {"criticalXids": [31, 79], "ignoredXids": [79]}}, "79 stands in criticalXids and in ignoredXids"),
        ({"health": {"criticalXids": [0]}}, r"health\.criticalXids\.0"),
        ({"health": {"recoveryScrapes": 0}}, r"health\.recoveryScrapes"),
    ],
)  # fmt: skip
def test_thresholds_that_contradict_each_other_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_settings(settings)


def test_the_usual_thresholds() -> None:
    assert Settings().bootstrap.monitoring == MonitoringSettings(scrape_period=15, ready_after=3, missing_after=120)
    assert Settings().health == HealthSettings(
        max_unavailable_percent=20, temperature_fault_c=95, temperature_clear_c=85, recovery_scrapes=20
    )
    chosen = parse_settings({"health": {"criticalXids": [31], "ignoredXids": [94]}}).health
    assert (chosen.critical_xids, chosen.ignored_xids) == ([31], [94])


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("1", "1"), ("0.5", "500m"), (".25", "250m"), ("1500m", "1500m"), ("2000m", "2"), ("1000", "1k"),
        ("1024", "1024"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("100Mi", "100Mi"), ("1048576Ki", "1Gi"),
        ("1500M", "1500M"), ("1.5G", "1500M"), ("1.", "1"),
    ],
)  # fmt: skip
def test_quantities_are_written_as_the_api_server_writes_them(written: str, kept: str) -> None:
    assert canonical(written) == kept


@given(
    st.decimals(min_value=Decimal("0.001"), max_value=10**6, places=3),
    st.sampled_from(["", "k", "M", "G", "Ki", "Mi", "Gi"]),
)
def test_a_quantity_keeps_its_value_and_its_form(number: Decimal, suffix: str) -> None:
    quantity = f"{number}{suffix}"
    if amount(quantity) % Decimal("0.001"):
        return
    kept = canonical(quantity)

    assert amount(kept) == amount(quantity)
    assert canonical(kept) == kept
    assert re.fullmatch(r"[0-9]+([KMGTPE]i|[mkMGTPE])?", kept)


@pytest.mark.cluster
async def test_the_api_server_keeps_what_is_written(plane: Plane) -> None:
    """Else what is there would never look as it is wanted, and be written again and again."""
    chosen = {
        "image": f"mirror.local:5000/x:v1@{DIGEST}",
        "args": ["", "--x"],
        "env": [{"name": "EMPTY"}, {"name": "FULL", "value": "$(EMPTY)"}],
        "resources": {
            "requests": {"cpu": "0.5", "memory": "1024Mi", "ephemeral-storage": "1000M"},
            "limits": {"cpu": "1000m", "memory": "1.5Gi", "ephemeral-storage": "1500000k"},
        },
    }
    settings = parse_settings({"bootstrap": dict.fromkeys(KEYS.values(), chosen)}).bootstrap
    for name, body in build.daemonsets(settings).items():
        meta = {**body["metadata"], "name": name, "namespace": names.NAMESPACE}
        await plane.put(resources.DAEMONSET, {**body, "metadata": meta})
        found = await plane.get(resources.DAEMONSET, name, names.NAMESPACE)
        await plane.delete(resources.DAEMONSET, name, names.NAMESPACE)
        assert found is not None
        assert covers(found["spec"], body["spec"]), name
