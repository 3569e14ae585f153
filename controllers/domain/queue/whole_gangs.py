"""Gangs of a pool's queue: pods that get cards together, or wait together. Pure.

A gang is served once all of its pods are there. Those of which some have been let go on already have their cards, and
are short of others: a pod that a controller made anew, or a release that a crash cut short. These come before everybody
(`controllers.domain.queue.order`), one by one, and no more of them than the gang is short of: others would be before
everybody for nothing. Pods of the gang that have ended are not waited for: they had their cards, and do not come back.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api.tenant import TenantPod
from controllers.domain.queue.entry import Entry, gang_entry
from controllers.domain.queue.gangs import Gang, gang_of
from controllers.domain.queue.gates import waits_for_cards_alone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controllers.api.kube import Pod
    from controllers.api.meta import ObjectMeta

Key = tuple[str, str]
"""Namespace and name of a gang."""


def group_gangs(
    pods: Mapping[str, TenantPod], all_pods: Iterable[Pod], entries: Sequence[Entry]
) -> tuple[list[Entry], dict[str, str]]:
    """The entries with those of a gang as one; and of pods whose gang is not whole what is missing, by key.

    `pods`: the queued ones by key; `all_pods`: all of the pool, on nodes or not.
    """
    found: list[Entry] = []
    members: dict[Key, list[Entry]] = defaultdict(list)
    for entry in entries:
        key = _key(pods[entry.key].metadata)
        if key is None:
            found.append(entry)
        else:
            members[key].append(entry)
    if not members:
        return found, {}
    present, released, sizes = _count(all_pods)
    incomplete: dict[str, str] = {}
    for key, group in members.items():
        size, waiting = max(sizes[key]), group
        lacking = size - present[key]
        if len(sizes[key]) > 1:
            detail = f"its pods disagree on how many they are ({', '.join(map(str, sorted(sizes[key])))})"
        elif released[key]:
            by_age, short = sorted(group, key=lambda entry: entry.age_key), max(0, size - released[key])
            found += [replace(entry, gang=key[1], is_torn=True) for entry in by_age[:short]]
            waiting = by_age[short:]
            detail = f"all of its {size} pods have cards, or are before this one"
        elif lacking > 0:
            detail = f"{lacking} of its {size} pods are not there yet, or wait for other scheduling gates"
        elif len(asked := {entry.profile for entry in group}) > 1:
            detail = f"its pods ask for different MIG profiles ({', '.join(sorted(each or 'none' for each in asked))})"
        else:
            found.append(gang_entry(key[1], group, is_torn=False))
            continue
        incomplete |= {entry.key: f" {key[1]}: {detail}" for entry in waiting}
    return found, incomplete


def _count(pods: Iterable[Pod]) -> tuple[Mapping[Key, int], Mapping[Key, int], Mapping[Key, set[int]]]:
    """Of each gang: pods that have cards or wait for them alone, those of them that were let go on, and its sizes."""
    present: dict[Key, int] = defaultdict(int)
    released: dict[Key, int] = defaultdict(int)
    sizes: dict[Key, set[int]] = defaultdict(set)
    for pod in pods:
        # One that went round the webhook may say of a gang what it likes, and counts for none.
        if not isinstance(pod, TenantPod) or pod.finished or pod.metadata.deletion_timestamp is not None:
            continue
        if (gang := _gang(pod.metadata)) is None:
            continue
        key = (pod.metadata.namespace or "", gang.name)
        sizes[key].add(gang.size)
        if not pod.spec.scheduling_gates:
            released[key] += 1
            present[key] += 1
        elif waits_for_cards_alone(pod):
            present[key] += 1
    return present, released, sizes


def _gang(meta: ObjectMeta) -> Gang | None:
    try:
        return gang_of(meta)
    except ValueError:
        return None  # the webhook refuses it, so somebody wrote it afterwards


def _key(meta: ObjectMeta) -> Key | None:
    gang = _gang(meta)
    return (meta.namespace or "", gang.name) if gang is not None else None
