"""Whether a pod can be let past its pool's queue, and what is said of it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.resources import GPUPOOL
from controllers.domain.wording import listed, short
from controllers.explain.queue_table import pool_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.explain.records import SeenPod

RIGHT: Final = f"the verb {names.VERB_RELEASE} on {GPUPOOL.plural}.{GPUPOOL.group}"


def gates_of(raw: dict[str, Any]) -> tuple[str, ...]:
    """The names of a pod's scheduling gates, all of them."""
    found = (raw.get("spec") or {}).get("schedulingGates") or ()
    return tuple(str(gate.get("name")) for gate in found if isinstance(gate, dict))


def objection(pod: SeenPod, gates: Sequence[str]) -> str | None:
    """Why the pod cannot be released; None where the pod has our gate."""
    if pod.finished:
        return f"Pod {pod.key} has ended ({pod.status.phase}): it waits for nothing."
    if pod.metadata.deletion_timestamp is not None:
        return f"Pod {pod.key} is being deleted, and gets no card any more."
    if names.CARDS_GATE in gates:
        if pool_of(pod):
            return None
        return f"Pod {pod.key} has gate {names.CARDS_GATE}, and asks for no card: there is no pool to let it past."
    return f"Pod {pod.key} does not wait in a queue: {_what_instead(pod, gates)}"


def _what_instead(pod: SeenPod, gates: Sequence[str]) -> str:
    """How a pod without our gate is."""
    if pod.node is not None:
        return f"it is on node {pod.node}."
    if gates:
        return f"it waits for other scheduling gates alone, {_named(gates)}. Whoever set them has to take them off."
    see = f"kubectl gpu explain pod {pod.name} -n {pod.metadata.namespace}"
    return f"it has no scheduling gate, and the scheduler has it: {see}"


def lacking_right(pod: SeenPod) -> str:
    """What whoever may not let pods past the queue has to be given."""
    pool = pool_of(pod)
    return (
        f"You may not let pods past the queue of GPUPool {pool}: that takes {RIGHT}/{pool}. Ask an administrator for"
        f" it: kubectl create clusterrole gpu-release-{pool} --verb={names.VERB_RELEASE}"
        f" --resource={GPUPOOL.plural}.{GPUPOOL.group} --resource-name={pool}, bound to you"
    )


def patch(pod: SeenPod, gates: Sequence[str]) -> list[dict[str, Any]]:
    """Takes our gate off exactly this version of the pod; the others stay."""
    at = f"/spec/schedulingGates/{gates.index(names.CARDS_GATE)}"
    return [
        # The API server answers with a conflict where the pod is of another version, or another pod, by now.
        {"op": "add", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version},
        {"op": "test", "path": f"{at}/name", "value": names.CARDS_GATE},
        {"op": "remove", "path": at},
    ]


def warnings(gates: Sequence[str]) -> list[str]:
    """What whoever lets a pod past the queue should know."""
    said = [
        "No cards are reserved for it: gpupool-controller reserves for it first among those that wait, and until then"
        " the scheduler may bind it to cards that are reserved for another pod, which then waits again."
    ]
    others = [gate for gate in gates if gate != names.CARDS_GATE]
    if others:
        said.append(f"Its other scheduling gates stay, and it waits for them: {_named(others)}.")
    return said


def summary(pod: SeenPod, dry_run: str) -> str:
    """What was done."""
    how = {"client": " (dry run on the client)", "server": " (dry run on the server: nothing is refused)"}
    return f"Pod {pod.key} is let past the queue of GPUPool {pool_of(pod)}{how.get(dry_run, '')}."


def as_json(pod: SeenPod, dry_run: str) -> dict[str, Any]:
    """The same for programs."""
    meta = pod.metadata
    return {
        "dryRun": dry_run,
        "namespace": meta.namespace,
        "pod": meta.name,
        "pool": pool_of(pod),
        "released": dry_run == "none",
    }


def _named(gates: Sequence[str]) -> str:
    return listed(short(gate) for gate in gates)
