"""The command line: what a person or a manifest gets wrong ends with status 2 and a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.gpupool.operands import device_plugin
from nodeagent.deviceplugin import __main__ as program
from nodeagent.deviceplugin.devices import offers
from tests.nodeagent.command import run

if TYPE_CHECKING:
    from pathlib import Path


def test_help_tells_roles_flags_and_exit_statuses() -> None:
    assert run("--help")[0] == 0
    status, text = run("device-plugin", "--help")
    assert status == 0
    for flag in ("--pool", "--plugin-dir", "--pod-resources", "--device-strategy", "--report-period"):
        assert flag in text
    assert "Ends with status 0" in text


def test_an_unknown_role_is_told_the_known_ones() -> None:
    status, text = run("divine")
    assert status == 2
    assert "device-plugin" in text


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ((), "--pool"),
        (("--pool", "a/b"), "invalid pool value"),
        (("--pool", "p", "--device-strategy", "x"), "invalid strategy value"),
    ],
)
def test_wrong_flags(flags: tuple[str, ...], why: str) -> None:
    status, text = run("device-plugin", *flags)
    assert status == 2
    assert why in text


def test_a_wrong_strategy_of_the_environment() -> None:
    status, text = run("device-plugin", "--pool", "p", DEVICE_STRATEGY="x")
    assert status == 2
    assert "invalid strategy value: 'x'" in text


def test_without_a_name_of_the_node(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],"
        " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}]}"
    )
    status, text = run("device-plugin", "--pool", "p", "--kubeconfig", str(config))
    assert status == 2
    assert "which node is this?" in text


def test_the_daemonset_starts_this_program_where_it_looks() -> None:
    """What gpupool-controller writes, against the program's own flags and defaults."""
    from controllers.api.gpupool import GPUPool
    from controllers.api.meta import ObjectMeta

    made = device_plugin.daemonset(GPUPool(metadata=ObjectMeta(name="p", uid="u")), "image")
    (container,) = made["spec"]["template"]["spec"]["containers"]
    role, *flags = container["args"]
    args = program.parser().parse_args(flags)
    assert (role, args.pool) == ("device-plugin", "p")
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(args.plugin_dir), str(args.pod_resources.parent), str(args.sys)} <= mounts
    assert any(variable["name"] == "NODE_NAME" for variable in container["env"])
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError", "its last words are in the pod's status"


@pytest.mark.parametrize("divided", [False, True])
def test_the_pod_has_the_drivers_devices_where_the_program_asks_the_driver(divided: bool) -> None:
    from controllers.gpupool.operands import device_plugin_pod
    from tests.nodeagent.deviceplugin.make import EXCLUSIVE, SPLIT, asked

    pod = device_plugin_pod.pod("p", "image", "Auto", divided=divided)
    variables = {variable["name"] for variable in pod["containers"][0]["env"]}
    assert ("runtimeClassName" in pod, "NVIDIA_VISIBLE_DEVICES" in variables) == (divided, divided)
    assert offers.asks_driver(asked(SPLIT if divided else EXCLUSIVE, 0)) is divided
