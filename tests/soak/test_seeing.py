"""What is read of processes, logs and the cluster is what is there."""

from __future__ import annotations

import mmap
import os
import threading

import pytest

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Node, Pod
from controllers.api.record import adapter
from reliability.kit.process import parse_metrics
from reliability.soak import logs, readings
from reliability.soak.records import is_ours
from reliability.soak.snapshot import TEAM, TOLD, differences, population

METRICS = """# HELP gpu_client_requests_total Requests to the API server.
# TYPE gpu_client_requests_total counter
gpu_client_requests_total{code="200",method="GET"} 7.0
gpu_client_requests_total{code="409",method="PATCH"} 2.0
gpu_client_requests_total{code="200",method="PUT"} 30.0
gpu_event_loop_tasks 41.0
gpu_queue_depth{controller="pools"} 1.0
gpu_queue_depth{controller="cards"} 2.0
gpu_cached_objects{kind="Node"} 7.0
gpu_writes_total{kind="GPUDevice",verb="apply"} 5.0
gpupool_reservations_expired_total{pool="a"} 3.0
"""


def test_a_process_says_what_it_holds() -> None:
    own = readings.own(parse_metrics(METRICS))
    assert (own.tasks, own.queue, own.cached, own.writes, own.series, own.expired) == (41, 3, 7, 5, 9, 3)
    assert own.requests == {"GET 200": 7, "PATCH 409": 2, "PUT 200": 30}
    assert (own.sent, own.changes) == (39, 2), "neither reads nor the lease's renewals change anything"


def test_the_kernel_counts_descriptors_threads_and_memory() -> None:
    before = readings.kernel(os.getpid())
    stop, pair = threading.Event(), os.pipe()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    held = mmap.mmap(
        -1, 20 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    )  # not of the heap, where room may be that was written before
    held.write(os.urandom(len(held)))
    try:
        after = readings.kernel(os.getpid())
    finally:
        stop.set()
        thread.join()
        for descriptor in pair:
            os.close(descriptor)
    assert after.descriptors == before.descriptors + 2
    assert after.threads == before.threads + 1
    assert after.anonymous > before.anonymous + 15 > 15 < len(held)
    assert after.rss >= after.anonymous
    assert after.cpu >= before.cpu
    assert after.own is None


def test_one_that_has_ended_is_told() -> None:
    with pytest.raises(OSError):  # noqa: PT011 - of whichever kind: whoever reads takes them all
        readings.kernel(2**22 + 1)


def test_the_modules_processes_are_known_with_their_replicas() -> None:
    assert all(map(is_ours, (names.INVENTORY, names.WEBHOOK, f"{names.WEBHOOK}-2")))
    assert not any(map(is_ours, ("etcd", "webhook-balancer", "simulated-agent", "kube-apiserver")))


def test_errors_of_a_log_are_found() -> None:
    lines = [
        '{"process":"p","event":"started","level":"info"}',
        '{"process":"p","event":"an event was not sent","level":"warning"}',
        '{"process":"p","event":"an event was not sent","level":"warning"}',
        '{"process":"p","event":"reconcile failed","level":"error","key":"a"}',
        '{"process":"p","event":"Task exception was never retrieved","level":"warning"}',
        "Traceback (most recent call last):",
        "[1, 2]",
    ]
    assert logs.errors(lines) == [lines[3], lines[4], lines[5]]
    assert logs.warnings(lines) == {"an event was not sent": 2, "Task exception was never retrieved": 1}


def world(**changed: object) -> dict[str, str]:
    card = {"metadata": {"name": "c"}, "status": {"state": "Unassigned", "nodeName": "n"}}
    empty = {"nodes": (), "inventories": (), "devices": (), "pools": (), "pods": (), "features": ()}
    made = empty | {"devices": [adapter(GPUDevice).validate_python(card)]}
    return population(**made | changed)


def test_a_card_in_another_state_and_whatever_is_left_is_a_difference() -> None:
    card = {"metadata": {"name": "c", "annotations": {names.ASSIGNMENT: "a"}}, "status": {"state": "Unassigned"}}
    pod = {"metadata": {"name": "p", "namespace": TEAM}, "status": {"phase": "Running"}}
    operand = {"metadata": {"name": "o", "namespace": names.NAMESPACE}, "spec": {"nodeName": "gone"}}
    foreign = {"metadata": {"name": "f", "namespace": "kube-system"}}
    now = world(
        devices=[adapter(GPUDevice).validate_python(card)],
        pods=[adapter(Pod).validate_python(one) for one in (pod, operand, foreign)],
    )
    found = differences(world(), now)
    assert differences(world(), world()) == []
    assert len(found) == 3
    assert found[0].startswith("card c: was Unassigned in -,")
    assert "assigned to a" in found[0]
    assert found[1:] == [
        "operands on gone: was not there, is 0 of 1 ready",
        "pod p: was not there, is Running",
    ]


def test_what_a_node_offers_counts_and_a_resource_of_nothing_does_not() -> None:
    def node(**allocatable: str) -> dict[str, str]:
        status = {"allocatable": {names.resource_name(pool): count for pool, count in allocatable.items()}}
        return world(nodes=[adapter(Node).validate_python({"metadata": {"name": "n"}, "status": status})])

    assert differences(node(a="8"), node(a="8", gone="0")) == []
    assert len(differences(node(a="8"), node(a="7"))) == 1


def test_only_the_first_differences_are_told() -> None:
    found = differences({}, {str(number): "there" for number in range(TOLD + 5)})
    assert len(found) == TOLD + 1
    assert found[-1] == "and 5 more"
