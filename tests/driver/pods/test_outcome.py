"""What kubelet says of a driver's pod whose containers do not start."""

from __future__ import annotations

import pytest

from controllers.api.meta import ObjectMeta
from controllers.driver.node import pod
from controllers.driver.records import ContainerState, ContainerStatus, DriverPodStatus, Pod, Waiting


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("CreateContainerConfigError", "SecretMissing"),
        ("ErrImagePull", "PullFailed"),
        ("ImagePullBackOff", "PullFailed"),
        ("PodInitializing", ""),
        ("ContainerCreating", ""),
    ],
)
@pytest.mark.parametrize("name", [pod.PREPARE, pod.DRIVER])
def test_a_container_that_kubelet_cannot_start_is_told_and_may_yet_start(word: str, reason: str, name: str) -> None:
    said = 'secret "pro-token" not found'
    status = ContainerStatus(name=name, state=ContainerState(waiting=Waiting(reason=word, message=said)))
    found = pod.outcome(Pod(metadata=ObjectMeta(name="x"), status=DriverPodStatus(container_statuses=(status,))))
    assert (found.reason or "", found.fault) == (reason, None)
    assert (said in found.message) is bool(reason)
