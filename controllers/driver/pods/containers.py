"""The containers of a driver's pod that run NVIDIA's images. Pure.

What they need is known from NVIDIA/gpu-operator, manifests/state-driver/0500_daemonset.yaml, and from the programs in
NVIDIA/gpu-driver-container.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from controllers.components.podspec import env, resources
from controllers.domain.driver.states import limit_of
from controllers.driver.pods import environment, host, mounted
from controllers.driver.pods.container_names import DRIVER, PEERMEM
from controllers.driver.pods.inputs import script
from controllers.driver.pods.sidecars import sidecars

if TYPE_CHECKING:
    from controllers.components.podspec import Json
    from controllers.driver.pods.inputs import Inputs
    from controllers.driver.pods.sidecars import Beside

PERIOD: Final = 10
"""Seconds between two tries of a probe."""
_SECURITY: Final = {"privileged": True, "seLinuxOptions": {"level": "s0"}}
_NO_CARDS: Final = env({"NVIDIA_VISIBLE_DEVICES": "void"})
# There is no liveness probe: no answer of a card is a reason to end a driver.
_SERVES: Final = "test -e /run/nvidia/validations/.driver-ctr-ready && test ! -e /run/nvidia/gpu-control-plane/hold"
_LOADED: Final = (
    "until test -d /run/nvidia/driver/usr/src && test -e /sys/module/nvidia/refcnt; do"
    " echo 'waits for the driver'; sleep 5; done; exec {program} install"
)


def driver(given: Inputs) -> Json:
    """NVIDIA's program, behind a script that leaves alone what is in use.

    The container is ready while the driver serves. One that is started and not ready holds: it does nothing.
    """
    return {
        "name": DRIVER,
        "image": given.choice.image,
        "imagePullPolicy": given.driver.spec.image.pull_policy,
        "command": ["bash", "-c", script("wrapper")],
        "env": environment.of_driver(given),
        "securityContext": _SECURITY,
        "resources": _resources(given),
        # What it says last is all that tells why it failed.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "startupProbe": _shell(script("started"), delay=60, timeout=60),
        "readinessProbe": {"exec": {"command": ["sh", "-c", _SERVES]}, "periodSeconds": 5, "timeoutSeconds": 10},
        "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", script("stopping")]}}},
        "volumeMounts": [*host.DRIVER, *mounted.mounts(given)],
    } | environment.secret(given)


def extra_containers(given: Inputs) -> list[Json]:
    """The containers that load one more module, where they are asked for."""
    spec = given.driver.spec
    made = [_peermem(given)] if spec.rdma.enabled else []
    return made + [_module(given, one) for one in sidecars(spec, given.choice)]


def _peermem(given: Inputs) -> Json:
    """Loads nvidia-peermem whenever MOFED is loaded anew."""
    probe = ["sh", "-c", "nvidia-driver probe_nvidia_peermem"]
    parameters = [one for one in mounted.mounts(given) if one["mountPath"].endswith("/nvidia-peermem.conf")]
    told = {key: value for key, value in environment.rdma(given).items() if key == "USE_HOST_MOFED"}
    return {
        "name": PEERMEM,
        "image": given.choice.image,
        "imagePullPolicy": given.driver.spec.image.pull_policy,
        "command": ["nvidia-driver", "reload_nvidia_peermem"],
        "env": [*_NO_CARDS, *env(told)],
        "securityContext": _SECURITY,
        "resources": _modest(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "startupProbe": _probe(probe, delay=10, timeout=10, tries=_tries(10)),
        "livenessProbe": _probe(probe, delay=30, timeout=10, tries=1) | {"periodSeconds": 30},
        "volumeMounts": [*host.PEERMEM, *parameters],
    }


def _module(given: Inputs, beside: Beside) -> Json:
    loaded = ["sh", "-c", f"test -e /sys/module/{beside.module}/refcnt"]
    return {
        "name": beside.name,
        "image": beside.image,
        "imagePullPolicy": given.driver.spec.image.pull_policy,
        "command": ["bash", "-c", _LOADED.format(program=beside.program)],
        "env": [*_NO_CARDS, *env(environment.proxies(given.proxy))],
        "securityContext": _SECURITY,
        "resources": _modest(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "startupProbe": _probe(loaded, delay=10, timeout=10, tries=_tries(10)),
        "volumeMounts": [*host.BESIDE],
    } | environment.secret(given)


def _resources(given: Inputs) -> Json:
    """What the driver asks for, and of what it does not name, what is modest."""
    asked = given.driver.spec.resources
    made: Json = {"requests": _modest()["requests"] | dict(asked.requests)}
    return made | ({"limits": dict(asked.limits)} if asked.limits else {})


def _modest() -> Json:
    """No limit of memory: a compiler that is killed leaves a node without a driver."""
    return {"requests": resources("100m", "256Mi", "0")["requests"]}


def _shell(text: str, *, delay: int, timeout: int) -> Json:
    return _probe(["bash", "-c", text], delay=delay, timeout=timeout, tries=_tries(delay))


def _tries(delay: int) -> int:
    """Tries after which a container is ended: not before the node's longest limit for installing has passed."""
    limit = limit_of("Installing") or 0.0
    return math.ceil((limit - delay) / PERIOD)


def _probe(command: list[str], *, delay: int, timeout: int, tries: int) -> Json:
    return {
        "exec": {"command": command},
        "initialDelaySeconds": delay,
        "periodSeconds": PERIOD,
        "timeoutSeconds": timeout,
        "failureThreshold": tries,
    }
