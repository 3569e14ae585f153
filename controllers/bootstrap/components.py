"""Keeps the components' DaemonSets and RuntimeClasses as they are built. Pure.

What is wanted is compared with what is there, field by field, so that an edit by hand is
found whenever it was made, also while nobody of us ran. A field that somebody added beside
ours stays: by the rules of server-side apply it is theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.resources import DAEMONSET, RUNTIMECLASS
from controllers.bootstrap import operands
from controllers.bootstrap.phases import PHASES
from controllers.runtime.plan import Apply, Delete, Draft, Plan, Ref, ref

if TYPE_CHECKING:
    from controllers.api.settings import BootstrapSettings
    from controllers.bootstrap.observe import ObservedOperands, Operand
    from controllers.bootstrap.parts import Json

# What tells the entries of a list apart, as the API server's merge keys do; other lists are one value.
MERGE_KEYS = ("mountPath", "containerPort", "name")


def plan(seen: ObservedOperands, settings: BootstrapSettings, agent_image: str = operands.AGENT_IMAGE) -> Plan:
    """What to write so that every component runs as it is built, and no other."""
    draft, wanted = Draft(), operands.daemonsets(settings, agent_image)
    for name, body in operands.runtime_classes().items():
        # One that is there may be the administrator's, and its handler cannot be changed.
        if name not in seen.runtime_classes:
            draft.add(Apply(Ref(RUNTIMECLASS, name), body))
    for name, body in wanted.items():
        found = seen.daemonsets.get(name)
        if found is None or (found.metadata.deletion_timestamp is None and not _is_as_built(found, body)):
            draft.add(Apply(Ref(DAEMONSET, name, names.NAMESPACE), body))
    for phase in PHASES:
        name = operands.object_name(phase.component)
        found = seen.daemonsets.get(name)
        if name not in wanted and found is not None and found.metadata.deletion_timestamp is None:
            draft.add(Delete(ref(DAEMONSET, found), found.metadata.resource_version))
    return draft.done()


def _is_as_built(found: Operand, body: Json) -> bool:
    """Our fields are as we want them; the hash tells of fields that we wanted once and want no more."""
    meta, wanted = found.metadata, body["metadata"]
    return (
        meta.annotations.get(names.SPEC_HASH) == wanted["annotations"][names.SPEC_HASH]
        and covers(meta.labels, wanted["labels"])
        and covers(found.spec, body["spec"])
    )


def covers(found: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is there; defaults and others' additions do not matter."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            key in found and covers(found[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and _covers_list(found, wanted)
    return bool(found == wanted)


def _covers_list(found: list[Any], wanted: list[Any]) -> bool:
    key = _merge_key(wanted)
    if key is None:
        return len(found) == len(wanted) and all(map(covers, found, wanted))
    there = {entry.get(key): entry for entry in found if isinstance(entry, dict)}
    return all(covers(there.get(entry[key]), entry) for entry in wanted)


def _merge_key(entries: list[Any]) -> str | None:
    for key in MERGE_KEYS:
        if entries and all(isinstance(entry, dict) and key in entry for entry in entries):
            return key
    return None
