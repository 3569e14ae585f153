"""Every field of GPU Operator's is taken over or has a reason, and one that is none is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.explain.faults import UsageError
from controllers.gpu_operator.known import CLUSTER_POLICY, NVIDIA_DRIVER, is_known
from controllers.gpu_operator.reasons import CLUSTER_POLICY as POLICY_ROWS
from controllers.gpu_operator.reasons import EVERYTHING
from controllers.gpu_operator.reasons import NVIDIA_DRIVER as DRIVER_ROWS
from controllers.gpu_operator.source import read
from tests.gpu_operator.given import kinds, nvidia_driver, of, policy, remarks, usual

NOTHING = "nothing in the module does this"


def spec_of(fields: frozenset[str], value: Any) -> dict[str, Any]:
    """A spec in which each of the fields has a value that no type check looks at."""
    made: dict[str, Any] = {}
    for path in sorted(fields):
        *groups, last = path.split(".")
        here = made
        for key in groups:
            here = here.setdefault(key, {})
        here[last] = value
    return made


LISTS = ("env", "args", "imagePullSecrets", "tolerations", "runtimeClasses", "podLabelAllowlistRegex", "relabelings")
GROUPS = ("resources", "nodeSelector", "nodeAffinity", "labels", "annotations", "podSecurityContext",
          "additionalLabels", "initContainer", "startupProbe", "livenessProbe", "readinessProbe")  # fmt: skip
NUMBERS = ("timeoutSeconds", "maxParallelUpgrades")
FLAGS = (
    *("enabled", "default", "usePrecompiled", "useHostMofed", "useNvidiaDriverCRD", "autoUpgrade", "enable", "force"),
    *("deleteEmptyDir",),
)


def filled(fields: frozenset[str]) -> dict[str, Any]:
    """A spec in which each of the fields asks for something unusual, with the type that the import looks at."""

    def value(path: str) -> Any:
        word = path.rpartition(".")[2]
        if word in LISTS:
            return [{"name": "X", "value": "y"}] if word == "env" else ["x"]
        if word in GROUPS:
            return {"x": "y"}
        if word in NUMBERS:
            return 7
        if path.endswith("config.default"):
            return "other"
        return word not in ("useNvidiaDriverCRD", "default") if word in FLAGS else "other"

    made = spec_of(fields, None)
    for path in fields:
        *groups, last = path.split(".")
        here = made
        for key in groups:
            here = here[key]
        here[last] = value(path)
    return made


@pytest.mark.parametrize("kind", ["ClusterPolicy", "NVIDIADriver"])
def test_each_known_field_is_taken_over_or_has_its_own_reason(kind: str) -> None:
    if kind == "ClusterPolicy":
        given_ = policy(
            **filled(CLUSTER_POLICY) | {"driver": filled(CLUSTER_POLICY)["driver"] | {"version": "580.1.2"}}
        )
    else:
        given_ = nvidia_driver(**filled(NVIDIA_DRIVER) | {"driverType": "gpu", "version": "580.105.08"})
    made = of(given_)
    assert [path for path, reason in remarks(made).items() if reason == NOTHING] == []
    assert remarks(made, "Unknown") == {}


@pytest.mark.parametrize("rows", [POLICY_ROWS, DRIVER_ROWS], ids=["ClusterPolicy", "NVIDIADriver"])
def test_each_reason_is_one_of_a_field(rows: Any) -> None:
    fields = CLUSTER_POLICY if rows is POLICY_ROWS else NVIDIA_DRIVER
    used = {row for path in fields for row in [rows.row(path)] if row is not None}
    shared = [row for row in rows.rows if row.pattern.startswith("*")]
    idle = [row.pattern for row in rows.rows if row not in used and row not in shared and not row.pattern.endswith("*")]
    assert idle == []


@pytest.mark.parametrize("path", ["driver.versoin", "wholeNew", "driver.upgradePolicy.pause", "toolkit.nested.deep"])
def test_an_unknown_field_is_named(path: str) -> None:
    groups = path.split(".")
    spec: Any = "x"
    for key in reversed(groups):
        spec = {key: spec}
    spec.setdefault("driver", {}).setdefault("version", "580.105.08")
    made = of(policy(**spec))
    assert path in remarks(made, "Unknown")


def test_a_field_of_an_opaque_group_is_known() -> None:
    assert is_known("driver.startupProbe.anything", CLUSTER_POLICY)
    assert is_known("nodeSelector.a.b/c", NVIDIA_DRIVER)
    assert is_known("driver.rdma", CLUSTER_POLICY)
    assert not is_known("driver.rdma.other", CLUSTER_POLICY)


def test_what_the_chart_sets_by_itself_is_no_remark() -> None:
    made = of(policy(**usual()))
    assert {*remarks(made)} == {"driver.upgradePolicy.maxUnavailable", "driver.upgradePolicy.podDeletion",
                                "mig.strategy"}  # fmt: skip


def test_no_secret_of_an_environment_is_repeated() -> None:
    secret = "hunter2"
    env = [{"name": "TOKEN", "value": secret}]
    made = of(policy(driver={"version": "580.105.08", "env": env, "args": [secret]}, validator={"env": env}))
    assert secret not in str(made.remarks)
    assert {"driver.env", "driver.args", "validator.env"} <= {*remarks(made)}


SECRET = "hunter2"
IN_A_URL = f"http://user:{SECRET}@proxy.example.com:3128"


PARTS = ("toolkit", "gfd", "dcgm", "dcgmExporter", "validator", "driver", "gds", "daemonsets", "")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("word", ["env", "args", "annotations"])
def test_no_value_of_an_environment_is_in_a_mistake_or_a_remark(part: str, word: str) -> None:
    for value in ({"TOKEN": SECRET}, SECRET, [SECRET], [[SECRET]], [{"name": "A", "value": {"x": SECRET}}]):
        on = {"enabled": True, "version": "580.105.08", word: value}
        try:
            told = str(of(policy(**{part: on}) if part else nvidia_driver(**{word: value})).remarks)
        except UsageError as error:
            told = str(error)
        assert SECRET not in told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NGC_API_KEY", SECRET),
        ("DCGM_TOKEN", SECRET),
        ("db_password", SECRET),
        ("https_proxy", IN_A_URL),
        ("X", IN_A_URL),
    ],
)
@pytest.mark.parametrize("section", ["toolkit", "gfd", "dcgm", "dcgmExporter", "driver"])
def test_a_credential_is_left_out_and_its_variable_is_named(section: str, name: str, value: str) -> None:
    driver = {"version": "580.105.08"}
    env = [{"name": name, "value": value}, {"name": "HTTP_PROXY", "value": "http://proxy.example.com:3128"}]
    parts: dict[str, Any] = {
        "driver": driver,
        section: {"enabled": True, "env": env, **(driver if section == "driver" else {})},
    }
    made = of(policy(**parts))
    assert SECRET not in str(made)
    (remark,) = [one for one in made.remarks if one.value == name]
    assert remark.about.endswith(f"{section}.env")
    assert ("secretEnv" if section == "driver" else f"bootstrap.{section}.env") in remark.reason
    assert "http://proxy.example.com:3128" in str(made.objects), "others are taken over"


def test_arguments_with_a_credential_are_left_out_as_a_whole() -> None:
    for args in (["-f", "x", f"--api-token={SECRET}"], ["--password", SECRET], [IN_A_URL], [f"Bearer {SECRET}"]):
        made = of(policy(gfd={"args": args}))
        assert SECRET not in str(made)
        assert "bootstrap.gfd.args" in remarks(made, "ToDo")["gfd.args"]
    kept = ["--kubelet-token-file=/run/token", "--interval", "30s"]
    assert kinds(of(policy(gfd={"args": kept})), "ModuleConfig")["gpu-control-plane"]["settings"]["bootstrap"] == {
        "gfd": {"args": kept}
    }


def test_settings_that_the_module_refuses_are_told_without_their_values() -> None:
    twice = [{"name": "A", "value": SECRET}, {"name": "A", "value": "x"}]
    made = of(policy(gfd={"env": twice}))
    assert "A is given twice" in remarks(made, "Refused")["gfd"]
    assert SECRET not in str(made)


def test_a_file_that_is_no_yaml_is_told_by_its_place_alone() -> None:
    with pytest.raises(UsageError, match=r"x.yaml is no YAML in line 3, column \d+\.") as told:
        read([("x.yaml", f"driver:\n  env:\n  - value: *{SECRET}\n")])
    assert SECRET not in str(told.value)


_WORDS = st.sampled_from([*sorted({word for path in CLUSTER_POLICY for word in path.split(".")})])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "580.1.2", "open", "25%"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted({path.split(".")[0] for path in CLUSTER_POLICY})), _VALUES, max_size=3))
def test_whatever_a_file_says_is_imported_or_a_mistake_in_words(spec: dict[str, Any]) -> None:
    mistake = ""
    try:
        made = of(policy(**spec))
        assert all(one.reason for one in made.remarks)
    except UsageError as error:
        mistake = str(error)
    assert not mistake or "should be" in mistake


@given(st.dictionaries(st.sampled_from(sorted({path.split(".")[0] for path in NVIDIA_DRIVER})), _VALUES, max_size=3))
def test_the_same_of_a_driver(spec: dict[str, Any]) -> None:
    mistake = ""
    try:
        of(nvidia_driver(**spec))
    except UsageError as error:
        mistake = str(error)
    assert not mistake or "should be" in mistake


def test_a_silent_row_is_silent_whatever_it_says() -> None:
    silent = [row for row in POLICY_ROWS.rows if row.usual == (EVERYTHING,)]
    assert silent
    assert POLICY_ROWS.reason("vfioManager.version", "anything") == ""
