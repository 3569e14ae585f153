"""Every name that crosses a process boundary: labels, annotations, reasons, field managers.

A string that two processes must spell alike is a constant here and nowhere else;
a test greps for stray literals.
"""

from __future__ import annotations

import hashlib
from typing import Final

GROUP: Final = "gpu.deckhouse.io"
VERSION: Final = "v1alpha1"
PREFIX: Final = f"{GROUP}/"
MODULE: Final = "gpu-control-plane"
MPS_ROOT: Final = "/run/nvidia/mps"
"""The host's folder of MPS control daemons, with one below it for each pool."""
NAMESPACE: Final = "d8-gpu-operator"

# --- limits of the contract -------------------------------------------------------------
POOL_NAME_MAX: Final = 40
OBJECT_NAME_MAX: Final = 253
LABEL_VALUE_MAX: Final = 63
LIST_MAX: Final = 500
"""Entries of a status list before it is cut and `truncated` set."""
CARDS_MAX: Final = 64
"""Cards of one node that we believe; a report with more is cut and said to be incomplete."""

# --- labels -------------------------------------------------------------------------------
LABEL_NODE: Final = PREFIX + "node"
LABEL_VENDOR: Final = PREFIX + "vendor"
LABEL_PRODUCT: Final = PREFIX + "product"
LABEL_FAMILY: Final = PREFIX + "family"
LABEL_PRESENT: Final = PREFIX + "present"
LABEL_ENABLED: Final = PREFIX + "enabled"
LABEL_IGNORE: Final = PREFIX + "ignore"
LABEL_DEVICE_COUNT: Final = PREFIX + "device-count"
LABEL_COMPONENT: Final = PREFIX + "component"
LABEL_POOL: Final = PREFIX + "pool"
"""On pods that hold a reservation, and on a pool's own operands."""
PODS_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector: pods that still have what they were given."""
TENANT_PODS: Final = f"metadata.namespace!={NAMESPACE}"
"""Field selector for pods that ask for cards: the module's own operands carry LABEL_POOL too."""
LABEL_MODULE: Final = "module"
LABEL_HERITAGE: Final = "heritage"
LABEL_APP: Final = "app"
LABEL_HOSTNAME: Final = "kubernetes.io/hostname"
RUNTIME_CLASS: Final = "nvidia"
"""RuntimeClass of pods that the container toolkit gives the driver's files and cards."""
RUNTIME_CLASSES: Final = (RUNTIME_CLASS, "nvidia-cdi")
"""RuntimeClasses and the handlers of the same names, which the toolkit tells the container runtime of.

Both inject cards by CDI here; the second keeps its name for pods that were written for NVIDIA's GPU operator.
"""
NFD_NODE_NAME: Final = "nfd.node.kubernetes.io/node-name"
GFD_PREFIX: Final = "nvidia.com/"
"""Before the labels that GPU feature discovery puts on a node."""


def deploy_label(component: str) -> str:
    """The node label that lets a component's DaemonSet onto a node."""
    return f"{PREFIX}deploy.{component}"


def pool_node_label(pool: str) -> str:
    """The node label that lets a pool's operands, and its pods, onto a node."""
    return f"{PREFIX}pool.{pool}"


def resource_name(pool: str) -> str:
    """The extended resource under which a pool's cards are asked for."""
    return PREFIX + pool


STARTUP_TAINT: Final = "startup-taint.cluster-autoscaler.kubernetes.io/gpu-cards"
"""Key of a taint that a node template brings, and that goes once the node's cards are offered.

The prefix is Cluster Autoscaler's: such a node counts as one that is still starting, and no second one is bought.
Karpenter takes any key that its NodePool names as a startup taint.
"""

DRIVER_VARIANT: Final = PREFIX + "driver.variant"
"""Node label that lets one driver's DaemonSet onto a node: `<revision>-<system>-<kernel>`; gpu-driver-controller's."""
DRIVER_ADOPTED: Final = PREFIX + "driver-adopted"
"""Pod label of people: `true` gives a driver's pod of another program, which nothing keeps any more, to the module."""
TAKEOVER_REPLICAS: Final = PREFIX + "takeover-replicas"
"""Annotation of GPU Operator's Deployment: how many replicas it had before `kubectl gpu takeover begin` stopped it."""
TAKEOVER_TAINT: Final = PREFIX + "takeover"
"""Key of a taint that `kubectl gpu takeover nodes` has on a node for the seconds in which its device plugin changes."""
DRIVER_TAINT: Final = PREFIX + "driver"
"""Key of the taint of nodes whose driver is changed while pods of others could come to their cards."""
DRIVER_OPT_OUT: Final = PREFIX + "driver-opt-out"
"""Node label of people: `true` leaves the node's driver as it is."""
DRIVER_RETRY: Final = PREFIX + "driver-retry"
"""Node annotation of people: `true` has a node tried again that failed; gpu-driver-controller takes it off."""
DRIVER_TAINTED: Final = PREFIX + "driver-tainted"
"""Node annotation: for which GPUDriver gpu-driver-controller put its taint there; without it the taint is not ours."""
FORCE: Final = PREFIX + "force"
"""Annotation of people on a Node, a driver's DaemonSet or its pod: what policies keep from them there is meant."""
LABEL_DRIVER: Final = PREFIX + "driver"
"""On DaemonSets, their pods and check pods: the GPUDriver."""
LABEL_REVISION: Final = PREFIX + "driver-revision"
"""On the same: the revision."""

# --- annotations --------------------------------------------------------------------------
ASSIGNMENT: Final = PREFIX + "assignment"
RETURN: Final = PREFIX + "return"
RESUME: Final = PREFIX + "resume"
PAUSE: Final = PREFIX + "pause"
"""Annotation of people on a GPUDriver or a Node: until when no node is started, as RFC 3339."""
HAND_OVER: Final = PREFIX + "hand-over"
"""Node annotation of people: who wants the node without pods and without the module's clients of the driver."""
DO_NOT_DISRUPT: Final = PREFIX + "do-not-disrupt"
"""Pod annotation or label of people: `true` keeps the pod from being evicted for the driver's sake."""
REQUEST_ID: Final = PREFIX + "request-id"
DEVICES: Final = PREFIX + "devices"
REQUESTED_BY: Final = PREFIX + "requested-by"
"""On pods: the person whose groups or rights their access rests on, as JSON {"username": name, "groups": [name]}."""
CARDS_GATE: Final = PREFIX + "cards"
"""Scheduling gate of pods that wait in a pool's queue; gpupool-controller takes it off once they have cards."""
QUEUED: Final = PREFIX + "Queued"
NODE_READY: Final = PREFIX + "Ready"
"""Condition of a Node, for autoscalers and whoever reads Nodes alone: ReadyForPooling of its GPUNodeInventory."""
NODE_HANDED_OVER: Final = "GPUHandedOver"
"""Condition of a Node that a person has for work of their own, by annotation HAND_OVER."""
NODE_CONDITIONS: Final = (NODE_READY, NODE_HANDED_OVER)
"""What the module says of a Node in its status."""
"""Condition of such pods: why they wait."""
NEAR: Final = PREFIX + "Near"
"""Condition of pods of several cards: False where nearer ones were to be had."""
VERB_RELEASE: Final = "release"
"""RBAC verb on a GPUPool: who has it may let a pod past the pool's queue."""
POOL_TAINTS: Final = PREFIX + "pool-taints"
"""On nodes: which of their taints gpupool-controller put there, and for which pool."""
SPEC_HASH: Final = PREFIX + "spec-hash"
COLLECTORS_HASH: Final = PREFIX + "collectors-hash"
"""On the exporter's pods: which version of its list of fields they read."""

FINALIZER_POOL: Final = "gpupool-controller.deckhouse.io/finalizer"
FINALIZER_DRIVER: Final = "gpu-driver-controller.deckhouse.io/finalizer"

# --- field managers, one for each process (docs/dev/design.md, Field managers) ----------------
MANAGER_INVENTORY: Final = "gpu-inventory"
MANAGER_BOOTSTRAP: Final = "gpu-bootstrap"
MANAGER_POOL: Final = "gpupool"
MANAGER_ADMISSION: Final = "gpu-admission"
AGENTS: Final = "gpu-nodeagent-"
"""How the names of programs on nodes begin."""
MANAGER_DISCOVER: Final = "gpu-nodeagent-discover"
MANAGER_VALIDATE: Final = "gpu-nodeagent-validate"
MANAGER_PLUGIN: Final = "gpu-nodeagent-device-plugin"
MANAGER_MIG: Final = "gpu-nodeagent-mig"
MANAGER_TOOLKIT: Final = "gpu-nodeagent-toolkit"
MANAGER_DRIVER: Final = "gpu-driver"
MANAGER_CRDS: Final = "gpu-crds"
"""Also the ServiceAccount of the Job that installs the custom resources' definitions."""
MANAGER_CLEANUP: Final = "gpu-cleanup"
"""Also the ServiceAccount of the Job that cleans up before the module goes."""

# --- processes and their objects ---------------------------------------------------------------
INVENTORY: Final = "gpu-inventory-controller"
BOOTSTRAP: Final = "gpu-bootstrap-controller"
POOL_CONTROLLER: Final = "gpupool-controller"
WEBHOOK: Final = "gpu-admission-webhook"
DRIVER_CONTROLLER: Final = "gpu-driver-controller"
"""The optional fifth process: drivers on nodes (setting `driver.enabled`)."""
CONSOLE: Final = "gpu-console"
"""The pages in the cluster (setting `console.enabled`), and the field manager of cards that are assigned there."""
WEBHOOK_SECRET: Final = "gpu-admission-webhook-tls"  # noqa: S105 - the name of a Secret, not one
REGISTRY_SECRET: Final = "deckhouse-registry"  # noqa: S105 - as above
"""With what the module's own images are pulled, where its registry wants to know (templates/registry-secret.yaml)."""
WEBHOOK_CONFIGURATION: Final = "gpu-control-plane"
COVERAGE: Final = "gpu-nfd-coverage"
DISCOVER_DAEMONSET: Final = "gpu-nodeagent-discover"
NODE_FEATURE_RULE: Final = "deckhouse-gpu-kernel-os"
"""The rule by which NFD labels nodes; inventory makes and keeps it."""
ALLOWED_DEVICES: Final = "DP_ALLOWED_DEVICES"
PLUGIN_SETTINGS: Final = "settings.json"
MIG_CONFIG: Final = "config.yaml"
"""In a node's MIG layout: mig-parted's document."""
MIG_CARDS: Final = "cards.json"
"""The same by PCI address."""
MIG_VERSION: Final = "version"


def plugin_object(pool: str) -> str:
    """The name of a pool's device-plugin DaemonSet and of its ConfigMap."""
    return f"gpu-device-plugin-{pool}"


def plugin_shard(pool: str, number: int) -> str:
    """The name of one of the ConfigMaps over which a large pool's cards are spread.

    The dot cannot occur in a pool's name: with a dash, shard 0 of `a` would be pool `a-0`'s own.
    """
    return f"{plugin_object(pool)}.{number}"


def mig_manager(pool: str) -> str:
    """The name of a pool's MIG manager DaemonSet."""
    return f"gpu-mig-manager-{pool}"


def mps(pool: str) -> str:
    """The name of a pool's DaemonSet of MPS control daemons."""
    return f"gpu-mps-{pool}"


def mig_layout(node: str) -> str:
    """The name of the ConfigMap with a node's MIG layout, shortened with a hash where it would be too long."""
    name = f"gpu-mig-layout-{node}"
    if len(name) <= OBJECT_NAME_MAX:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:10]
    return f"{name[: OBJECT_NAME_MAX - len(digest) - 1].rstrip('.-')}-{digest}"


def agent_feature(node: str) -> str:
    """The name of the node agent's own NodeFeature."""
    return f"gpu-{node}"


# --- features that the agent publishes -----------------------------------------------------------
FEATURE_DEVICE: Final = "gpu.device"
FEATURE_DRIVER: Final = "gpu.driver"
FEATURE_TOOLKIT: Final = "gpu.toolkit"
FEATURE_VALIDATION: Final = "gpu.validation"
FEATURE_AGENT: Final = "gpu.agent"
FEATURE_SYSTEM: Final = "gpu.system"
"""What the node is: system, kernels, Secure Boot, lockdown, container runtime, whose driver. See `system_facts`."""
FEATURE_NVML: Final = "gpu.nvml"
"""What NVML tells of each card in a container that has them; each says under which boot and which driver."""

# --- reasons of conditions that another process reads --------------------------------------------
REASON_REPORT_OUTDATED: Final = "ReportOutdated"
"""InventoryIncomplete of a node that has been started since its agent last reported."""
REASON_MODULE_DISABLED: Final = "ModuleDisabled"
"""Maintenance of a pool while the module is switched off."""
REASON_LAYOUT_FAILED: Final = "LayoutFailed"
"""Maintenance and Misconfigured of a pool whose nodes could not be configured as its spec asks, or drifted since."""
REASON_CARD_LOST: Final = "CardLost"
"""InventoryIncomplete of a card that is in a pool and gone from its node; bootstrap faults it."""
REASON_NODE_GONE: Final = "NodeGone"
"""InventoryIncomplete of a card whose Node was deleted, and of which something is remembered."""
REASON_NOT_RECOGNISED: Final = "NotRecognised"
"""InventoryIncomplete of such a card whose node is back, until a report names its uuid in its place."""
MPS_DOWN: Final = "MpsDown"
"""Of a card whose MPS control daemon does not serve."""
REASON_AWAITING_WITHDRAWAL: Final = "AwaitingWithdrawal"
"""Configured of a card that is not to be offered, and that its node's plugin still offers; no new pod gets it."""
REASON_VENDOR_NOT_SERVED: Final = "VendorNotServed"
"""InventoryIncomplete of a card that nobody can be asked about: it is not NVIDIA's. No node is prepared for it."""

# --- what NVIDIA's container runtime reads ---------------------------------------------------------
VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
"""The variable by which a container names its cards to it; the pod's own word wins over a device plugin's."""
NO_DEVICES: Final = "void"
"""Its value by which the runtime adds nothing, whatever the image asks for."""

# --- words at the head of the webhook's errors (docs/dev/design.md, What the webhooks refuse) -----
POOL_NOT_FOUND: Final = "PoolNotFound"
MIXED_POOL_REQUEST: Final = "MixedPoolRequest"
ACCESS_DENIED: Final = "AccessDenied"
NOT_RESERVED: Final = "NotReserved"
POOL_IN_MAINTENANCE: Final = "PoolInMaintenance"
POOL_MISCONFIGURED: Final = "PoolMisconfigured"
INSUFFICIENT_CAPACITY: Final = "InsufficientCapacity"
UNKNOWN_POOL: Final = "UnknownPool"
DEVICE_NOT_IN_SELECTOR: Final = "DeviceNotInSelector"
DEVICE_BUSY: Final = "DeviceBusy"
DEVICE_NOT_READY: Final = "DeviceNotReady"
IMMUTABLE_FIELD: Final = "ImmutableField"
NAME_TOO_LONG: Final = "NameTooLong"
INVALID_MIG_PROFILE: Final = "InvalidMIGProfile"

# --- events -----------------------------------------------------------------------------------------
EVENT_DEVICE_DETECTED: Final = "GPUDeviceDetected"
EVENT_DEVICE_REMOVED: Final = "GPUDeviceRemoved"
EVENT_DEVICE_RECOGNISED: Final = "GPUDeviceRecognised"
"""Cards of a Node that was deleted and registered again keep what people said of them."""
EVENT_INVENTORY_CONDITION: Final = "GPUInventoryConditionChanged"
EVENT_INVENTORY_OUTDATED: Final = "GPUInventoryOutdated"
EVENT_NODE_FEATURE_MISSING: Final = "GPUNodeFeatureMissing"
"""What is to tell of a node's cards is not there: NFD, its labels, or our agent's report."""
EVENT_DRIVER_MISSING: Final = "GPUDriverMissing"
EVENT_NODE_READY: Final = "GPUNodeReadyForPooling"
EVENT_DEVICE_FAULTED: Final = "GPUDeviceDegraded"
"""A card leaves service: named as the alert."""
EVENT_DEVICE_RECOVERED: Final = "GPUDeviceRecovered"
EVENT_DEVICE_WARNING: Final = "GPUDeviceWarning"
"""The driver told of an error of a card that does not take it out of service."""
EVENT_RETURN_IGNORED: Final = "GPUReturnIgnored"
EVENT_FUSE_HELD: Final = "GPUFuseHeld"
EVENT_ASSIGNED: Final = "GPUDeviceAssigned"
EVENT_RELEASED: Final = "GPUDeviceReleased"
EVENT_ANNOTATION_MISMATCH: Final = "GPUAnnotationMismatch"
EVENT_ANNOTATION_REMOVED: Final = "GPUAnnotationRemoved"
EVENT_NODE_WITHOUT_POOL: Final = "GPUNodeWithoutPool"
EVENT_UNASSIGNED_DEVICE: Final = "GPUUnassignedDevice"
"""Cards of a ready node wait for somebody to confirm them, or are named for a pool that does not take them."""
EVENT_CAPACITY_LOW: Final = "GPUPoolCapacityLow"
EVENT_MAINTENANCE: Final = "Maintenance"
"""A pool gives no cards until its nodes are configured as its spec asks."""
EVENT_MISCONFIGURED: Final = "Misconfigured"
EVENT_RECONFIGURED: Final = "GPUPoolReconfigured"
EVENT_RESUMED: Final = "GPUPoolResumed"
EVENT_RESERVATION_EXPIRED: Final = "GPUReservationExpired"
EVENT_QUEUED: Final = "GPUQueued"
"""A pod waits for cards, and why."""
EVENT_CARDS_RESERVED: Final = "GPUCardsReserved"
"""A pod that waited has its cards, and goes to the scheduler."""
EVENT_CARDS_APART: Final = "GPUCardsApart"
"""A pod got cards that are farther apart than other cards that were free."""
EVENT_TAINT_WITHHELD: Final = "GPUPoolTaintWithheld"
"""A pool's taint is not put on a node yet: it would hurt a pod that was admitted before."""
EVENT_DRIVER_BLOCKED: Final = "GPUDriverBlocked"
"""A node was looked at, and cannot get its driver."""
EVENT_DRIVER_INSTALLED: Final = "GPUDriverInstalled"
EVENT_DRIVER_FAILED: Final = "GPUDriverFailed"
"""A driver did not come to serve on a node."""
EVENT_DRIVER_GIVEN_BACK: Final = "GPUDriverGivenBack"
"""A node that was out of service for another driver is in service again with the one that it had."""
EVENT_NODE_HANDED_OVER: Final = "GPUNodeHandedOver"
"""A person has the node for work of their own, without clients of its driver."""
EVENT_DRIVER_DEFERRED: Final = "GPUDriverDeferred"
EVENT_DRIVER_ROLLED_BACK: Final = "GPUDriverRolledBack"
EVENT_DRIVER_HALTED: Final = "GPUDriverHalted"
"""A revision is bad: no node is started with it any more."""
EVENT_SETTINGS_INVALID: Final = "GPUSettingsInvalid"
