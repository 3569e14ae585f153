"""For each alert series with which it fires, and series with which it does not.

A value is written as promtool takes it, one sample a minute: `1x90` is 1 for an hour and a half.
"""

from __future__ import annotations

from typing import NamedTuple

LONG = 90
"""Minutes."""


def held(value: float) -> str:
    """The same value all the time."""
    return f"{value}x{LONG}"


class Case(NamedTuple):
    """Series by their samples."""

    alert: str
    firing: dict[str, str]
    says: dict[str, str]
    """Labels that the alert that fires has."""
    quiet: dict[str, str]
    at: str = "40m"


def condition(kind: str, value: float, node: str = "n1") -> dict[str, str]:
    """A node's condition."""
    return {f'gpu_node_inventory_condition{{node="{node}",condition="{kind}",pod="a"}}': held(value)}


def driver(kind: str, value: float) -> dict[str, str]:
    """A GPUDriver's condition."""
    return {f'gpu_driver_condition{{driver="d",condition="{kind}",pod="a"}}': held(value)}


def driver_work(what: str, phase: str, value: float) -> dict[str, str]:
    """Of nodes in a phase of their driver's work: how many, how long, which try."""
    return {f'gpu_driver_work{what}{{driver="d",phase="{phase}",pod="a"}}': held(value)}


def pool(kind: str, value: float, reason: str = "R", name: str = "p") -> dict[str, str]:
    """A pool's condition."""
    return {f'gpupool_condition{{pool="{name}",condition="{kind}",reason="{reason}",pod="a"}}': held(value)}


def cards(total: int, unassigned: int, *, ready: int = 1, waits: int = 1) -> dict[str, str]:
    """A node with cards of which some are in no pool."""
    return {
        'gpu_inventory_devices_total{node="n1",pod="a"}': held(total),
        'gpu_device_unassigned_total{node="n1",pod="a"}': held(unassigned),
        'gpu_bootstrap_ready{node="n1",pod="b"}': held(ready),
        **condition("UnassignedDevice", waits),
    }


def capacity(
    *,
    available: int,
    reserved: int = 0,
    unavailable: int = 0,
    total: int = 20,
    allocatable: int | None = 20,
    issuable: int | None = None,
) -> dict[str, str]:
    """A pool on two nodes, and what kubelets offer of it; another resource is there in any case.

    What is neither available, reserved nor unavailable is in use. `issuable`: slots of cards that pods can be given,
    all by default.
    """
    found = {
        'gpupool_capacity_total{pool="p-q",pod="a"}': held(total),
        'gpupool_capacity_available{pool="p-q",pod="a"}': held(available),
        'gpupool_capacity_reserved{pool="p-q",pod="a"}': held(reserved),
        'gpupool_capacity_unavailable{pool="p-q",pod="a"}': held(unavailable),
        'gpupool_capacity_used{pool="p-q",pod="a"}': held(total - available - reserved - unavailable),
        'gpupool_info{pool="p-q",resource="gpu_deckhouse_io_p_q",mode="Exclusive",unit="card",pod="a"}': held(1),
        'kube_node_status_allocatable{node="n1",resource="cpu",unit="core"}': held(64),
    }
    for node in ("n1", "n2"):
        slots = total if issuable is None else issuable
        found[f'gpupool_node_slots_issuable{{pool="p-q",node="{node}",pod="a"}}'] = held(slots / 2)
        if allocatable is not None:
            key = f'kube_node_status_allocatable{{node="{node}",resource="gpu_deckhouse_io_p_q",unit="integer"}}'
            found[key] = held(allocatable / 2)
    return found


def up(job: str, *values: int) -> dict[str, str]:
    """Replicas of a process."""
    return {f'up{{job="{job}",pod="{job}-{at}",instance="{at}"}}': held(value) for at, value in enumerate(values)}


def leader(job: str, value: int) -> dict[str, str]:
    """What a replica says of its lease."""
    return {f'gpu_leader{{job="{job}",lease="{job}",pod="{job}-0"}}': held(value)}


def latency(step: str, slow: int) -> dict[str, str]:
    """A hundred reviews a minute, of which some take longer than the alert allows."""
    low, high = {"decision": ("0.1", "0.5"), "write": ("1.0", "4.0")}[step]
    name = f"gpu_webhook_{step}_seconds_bucket"
    return {
        f'{name}{{le="{low}",pod="a"}}': f"0+{100 - slow}x{LONG}",
        f'{name}{{le="{high}",pod="a"}}': f"0+100x{LONG}",
        f'{name}{{le="+Inf",pod="a"}}': f"0+100x{LONG}",
    }


INVENTORY, BOOTSTRAP, POOLS = "gpu-inventory-controller", "gpu-bootstrap-controller", "gpupool-controller"
WEBHOOK = "gpu-admission-webhook"
DAY = 86400
FAULT = 'gpu_device_faulted{node="n1",device="d",pool="p",reason="Overheated",pod="b"}'
EXPIRES = 'gpu_webhook_certificate_expires_timestamp_seconds{pod="a",instance="i"}'
CORDONED = 'gpupool_node_slots_issuable{pool="p-q",node="n1",pod="a"}'
SHORT = 'kube_node_status_allocatable{node="n2",resource="gpu_deckhouse_io_p_q",unit="integer"}'
STALLED = 'gpupool_queue_stalled_seconds{pool="p",pod="a"}'
SKEW = 'gpu_software_skew{node="n1",component="toolkit",pod="b"}'
EXPIRED = 'gpupool_reservations_expired_total{pool="p",pod="a"}'

CASES = [
    Case("GPUDriverMissing", condition("DriverMissing", 1), {"node": "n1"}, condition("DriverMissing", -1)),
    Case(
        "GPUNodeFeatureMissing",
        condition("InventoryIncomplete", 1),
        {"node": "n1"},
        condition("InventoryIncomplete", 0),
    ),
    # Nobody waits for the cards of a node that is not managed.
    Case(
        "GPUNodeFeatureMissing",
        condition("InventoryIncomplete", 1) | condition("ManagedDisabled", 0) | condition("ManagedDisabled", 1, "n2"),
        {"node": "n1"},
        condition("InventoryIncomplete", 1) | condition("ManagedDisabled", 1),
    ),
    Case(
        "GPUNodeFeatureMissing",
        {'gpu_inventory_nfd_served{pod="a"}': held(0), 'gpu_inventory_rule_refused{pod="a"}': held(0)},
        {},
        {'gpu_inventory_nfd_served{pod="a"}': held(1), 'gpu_inventory_rule_refused{pod="a"}': held(0)},
    ),
    Case(
        "GPUNodeFeatureMissing",
        {'gpu_inventory_nfd_served{pod="a"}': held(1), 'gpu_inventory_rule_refused{pod="a"}': held(1)},
        {},
        {'gpu_inventory_nfd_served{pod="a"}': held(1)},
    ),
    Case("GPUNodeWithoutPool", cards(8, 8), {"node": "n1"}, cards(8, 7)),
    Case("GPUNodeWithoutPool", cards(8, 8), {"node": "n1"}, cards(8, 8, ready=0)),
    Case("GPUNodeWithoutPool", cards(8, 8), {"node": "n1"}, cards(8, 8, waits=0)),
    Case("GPUUnassignedDevice", cards(8, 3), {"node": "n1"}, cards(8, 3, waits=0), at="80m"),
    Case("GPUUnassignedDevice", cards(8, 3), {"node": "n1"}, cards(8, 8), at="80m"),
    Case("GPUDeviceDegraded", {FAULT: held(1)}, {"device": "d", "reason": "Overheated"}, {FAULT: "1 _x89"}),
    Case(
        "GPUFuseHeld",
        {'gpu_fuse_held{kind="node",group="nodes",pod="b"}': held(2)},
        {"kind": "node", "group": "nodes"},
        {'gpu_fuse_held{kind="node",group="nodes",pod="b"}': held(0)},
    ),
    # Ten minutes without a leader begin no new day; a roll-out that ends within one is none.
    Case(
        "GPUSoftwareSkew",
        {SKEW: "1x700 _x10 1x800"},
        {"node": "n1", "component": "toolkit"},
        {SKEW: "1x1400 _x100"},
        at="1500m",
    ),
    Case("GPUPoolCapacityLow", capacity(available=1), {"pool": "p-q"}, capacity(available=2)),
    Case("GPUPoolCapacityLow", capacity(available=0), {"pool": "p-q"}, capacity(available=0, total=0, allocatable=0)),
    Case("GPUReservationExpired", {EXPIRED: "0x30 1x60"}, {"pool": "p"}, {EXPIRED: "0 1x89"}),
    # Since the card was there, a minute more each minute; and one that is let go on in its time, again and again.
    Case("GPUQueueStalled", {STALLED: f"0x30 0+60x{LONG - 30}"}, {"pool": "p"}, {STALLED: f"0 30x{LONG}"}),
    Case("GPUQueueStalled", {STALLED: held(300)}, {"pool": "p"}, {STALLED: "0x38 90 0x50"}),
    # No card is given out, and that is meant.
    Case(
        "GPUPoolCapacityLow",
        capacity(available=0) | pool("Maintenance", 0, name="p-q") | pool("Maintenance", 1, name="p"),
        {"pool": "p-q"},
        capacity(available=0) | pool("Maintenance", 1, name="p-q"),
    ),
    Case("Maintenance", pool("Maintenance", 1), {"pool": "p"}, pool("Maintenance", 0)),
    # A reason that changes is no new Maintenance.
    Case(
        "Maintenance",
        {
            'gpupool_condition{pool="p",condition="Maintenance",reason="WaitingForPods",pod="a"}': "1x30 stale",
            'gpupool_condition{pool="p",condition="Maintenance",reason="PodsOverdue",pod="a"}': "_x30 1x60",
        },
        {"pool": "p"},
        pool("Maintenance", 1, "ModuleDisabled"),
    ),
    Case("Misconfigured", pool("Misconfigured", 1), {"pool": "p"}, pool("Misconfigured", 0)),
    Case(
        "GPUPoolNotOffered",
        capacity(available=15, reserved=1, allocatable=10),
        {"pool": "p-q"},
        capacity(available=15, reserved=5),
    ),
    # A pool in use: allocatable counts the cards in use too, so it is more than what is free all the time.
    Case("GPUPoolNotOffered", capacity(available=5, allocatable=10), {"pool": "p-q"}, capacity(available=5)),
    # Withdrawn cards that pods still use: kubelet offers them no more, and that is meant.
    Case(
        "GPUPoolNotOffered",
        capacity(available=2, reserved=1, allocatable=16),
        {"pool": "p-q"},
        capacity(available=2, reserved=1, allocatable=16, issuable=16),
    ),
    # Where nothing is free nobody is admitted to what is not offered.
    Case(
        "GPUPoolNotOffered",
        capacity(available=0, reserved=1, allocatable=18),
        {"pool": "p-q"},
        capacity(available=0, allocatable=18),
    ),
    # Slots that kubelets do not show are given to nobody: they are unavailable, and that is not meant.
    Case(
        "GPUPoolNotOffered",
        capacity(available=0, unavailable=10, allocatable=10),
        {"pool": "p-q"},
        capacity(available=0, unavailable=10, issuable=10),
    ),
    # A node that offers more, as a cordoned one does, makes up for none that offers less.
    Case(
        "GPUPoolNotOffered",
        capacity(available=5) | {CORDONED: held(0), SHORT: held(6)},
        {"pool": "p-q"},
        capacity(available=5) | {CORDONED: held(0)},
    ),
    Case(
        "GPUPoolNotOffered",
        capacity(available=15, allocatable=None),
        {"pool": "p-q"},
        # Without kube-state-metrics nothing can be said.
        {key: value for key, value in capacity(available=15).items() if not key.startswith("kube_")},
    ),
    Case("GPUDriverHalted", driver("Halted", 1), {"driver": "d"}, driver("Halted", 0) | driver("Blocked", 1)),
    Case(
        "GPUDriverFailed",
        driver_work("", "Broken", 2),
        {"driver": "d", "phase": "Broken"},
        # One that has its former driver again is in service.
        driver_work("", "RolledBack", 2),
    ),
    *(
        Case(
            "GPUDriverDeferred",
            driver_work("_attempts", phase, 5),
            {"driver": "d"},
            driver_work("_attempts", phase, 4) | driver_work("_attempts", "Soaking", 9),
        )
        for phase in ("Draining", "Deferred")
    ),
    Case(
        "GPUDriverRolledBack",
        driver_work("", "RolledBack", 1) | driver("Halted", 0),
        {"driver": "d"},
        driver_work("", "RolledBack", 1) | driver("Halted", 1),
        at="80m",
    ),
    Case(
        "GPUNodeHandedOver",
        driver_work("_oldest_seconds", "HandedOver", 7300),
        {"driver": "d"},
        driver_work("_oldest_seconds", "HandedOver", 7100) | driver_work("_oldest_seconds", "Soaking", 9000),
    ),
    Case(
        "GPUDriverNextKernelUnserved",
        driver("NextKernelUnserved", 1),
        {"driver": "d"},
        driver("NextKernelUnserved", 0),
        at="80m",
    ),
    *(
        Case("GPUProcessAbsent", up(job, 0, 0), {"process": job}, up(job, 0, 1))
        for job in (INVENTORY, BOOTSTRAP, POOLS, WEBHOOK)
    ),
    *(Case("GPUProcessAbsent", {}, {"process": job}, up(job, 1)) for job in (INVENTORY, BOOTSTRAP, POOLS, WEBHOOK)),
    *(
        Case("GPUProcessDown", up(job, 1, 0), {"job": job, "pod": f"{job}-1"}, up(job, 1, 1))
        for job in (INVENTORY, BOOTSTRAP, POOLS, WEBHOOK)
    ),
    Case("GPUProcessDown", up(WEBHOOK, 0), {"job": WEBHOOK}, up("node-exporter", 0)),
    *(
        Case("GPUControllerWithoutLeader", up(job, 1, 1), {"job": job}, up(job, 1, 1) | leader(job, 1))
        for job in (INVENTORY, BOOTSTRAP, POOLS)
    ),
    # The webhook serves with every replica; its lease is for certificates alone.
    Case("GPUControllerWithoutLeader", up(POOLS, 1) | leader(POOLS, 0), {"job": POOLS}, up(WEBHOOK, 1)),
    Case("LatencySpikes", latency("decision", 5), {"step": "decision"}, latency("decision", 0)),
    Case("LatencySpikes", latency("write", 5), {"step": "write"}, latency("write", 0)),
    Case("GPUWebhookCertificateExpires", {EXPIRES: held(10 * DAY)}, {"pod": "a"}, {EXPIRES: held(30 * DAY)}, at="80m"),
    # Before the first certificate is loaded nothing is known of it.
    Case("GPUWebhookCertificateExpires", {EXPIRES: held(DAY)}, {"instance": "i"}, {EXPIRES: held(0)}, at="80m"),
    Case(
        "GPUSettingsInvalid",
        {f'gpu_settings_invalid{{job="{POOLS}",pod="a"}}': held(1)},
        {"job": POOLS},
        {f'gpu_settings_invalid{{job="{POOLS}",pod="a"}}': held(0)},
    ),
]
