"""No card is given to another pool while a pod of its old pool may hold it, checked on every revision. Pure.

A card in pool b, or on b's list, is published by no other pool's plugin and serves no other pool's pod; it leaves a
pool only when its plugin has withdrawn it and no pod has it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from controllers.api import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reliability.faults.eventual_invariants import Wrong
    from reliability.faults.trace import Objects, Revision


def lists(state: Objects) -> dict[str, set[str]]:
    """The pools whose lists of allowed devices name a card, by its inventoryID."""
    found: dict[str, set[str]] = defaultdict(set)
    for (kind, _), obj in state.items():
        if kind == "ConfigMap" and (allowed := obj.get("data", {}).get(names.ALLOWED_DEVICES)):
            pool = obj["metadata"].get("labels", {}).get(names.LABEL_POOL, obj["metadata"]["name"])
            for card in allowed.split():
                found[card].add(pool)
    return found


def one_list(state: Objects) -> list[str]:
    """A card is on one pool's list of allowed devices at most."""
    return [f"{card} is on the lists of {', '.join(sorted(p))}" for card, p in lists(state).items() if len(p) > 1]


def unowned(state: Objects) -> dict[tuple[str, ...], Wrong]:
    """Cards that a plugin publishes and that are in no pool: for a moment only, where one came anew on an old list."""
    return {
        ("unowned", obj["metadata"]["uid"]): (
            float("-inf"),
            f"{name} is in no pool, and published by the plugin of {status['published']['pool']}",
        )
        for (kind, name), obj in state.items()
        if kind == "GPUDevice" and (status := obj.get("status", {})).get("published") and not status.get("poolRef")
    }


class Fence:
    """Looks at each revision before it is taken into the state; knows which pool each allocation was of."""

    def __init__(self) -> None:
        self._pod: dict[str, str] = {}
        """The pool of a pod, by uid, also when it is gone."""
        self._given: dict[tuple[str, str], str] = {}
        """The pool that a card was in when an allocation was first seen: pods that went round the webhook say none."""
        self._told: set[tuple[str, str]] = set()

    def look(self, state: Objects, revision: Revision) -> list[str]:
        """What this revision breaks; `state` is that before it."""
        kind, obj = revision.key[0], revision.object
        if kind == "Pod" and (pool := obj["metadata"].get("labels", {}).get(names.LABEL_POOL)):
            self._pod[str(obj["metadata"]["uid"])] = pool
        if kind not in ("GPUDevice", "ConfigMap"):
            return []
        after: Objects = {**state}
        after.pop(revision.key, None)
        if revision.type != "DELETED":
            after[revision.key] = obj
        left = list(self._left(state.get(revision.key), obj)) if kind == "GPUDevice" and revision.key in after else []
        broken = set(self._broken(after))
        new, self._told = sorted(broken - self._told), broken
        return [*left, *(f"{name} {what}" for name, what in new)]

    def _left(self, was: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Iterator[str]:
        """A card leaves its pool with nothing said of it by that pool's plugin."""
        if was is None or was["metadata"]["uid"] != now["metadata"]["uid"]:
            return
        old, new = was.get("status", {}), now.get("status", {})
        pool = (old.get("poolRef") or {}).get("name")
        if not pool or (new.get("poolRef") or {}).get("name") == pool:
            return
        if (new.get("published") or {}).get("pool") == pool:
            yield f"it left pool {pool} while its plugin publishes it"
        if pods := [str(entry["pod"]) for entry in new.get("allocations", ())]:
            yield f"it left pool {pool} while pods have it: {', '.join(pods)}"

    def _broken(self, state: Objects) -> Iterator[tuple[str, str]]:
        listed = lists(state)
        for (kind, name), obj in state.items():
            if kind != "GPUDevice":
                continue
            status = obj.get("status", {})
            ours, published = (status.get("poolRef") or {}).get("name"), (status.get("published") or {}).get("pool")
            on = listed.get(status.get("inventoryID", ""), set())
            holders = {self._pool_of(obj, entry) for entry in status.get("allocations", ())} - {""}
            for pool in sorted(on | ({ours} if ours else set())):
                place = f"is in pool {pool}" if pool == ours else f"is on the list of {pool}"
                if published and published != pool:
                    yield name, f"{place}, and published by the plugin of {published}"
                for holder in sorted(holders - {pool}):
                    yield name, f"{place}, and serves a pod of {holder}"
                if ours and pool != ours:
                    yield name, f"{place}, and in pool {ours}"

    def _pool_of(self, card: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
        status, key = card.get("status", {}), (str(card["metadata"]["uid"]), str(entry["podUID"]))
        now = (status.get("published") or {}).get("pool") or (status.get("poolRef") or {}).get("name") or ""
        return self._pod.get(key[1]) or self._given.setdefault(key, now)
