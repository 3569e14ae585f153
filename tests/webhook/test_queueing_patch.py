"""The patch for a pod that waits adds what its pool asks for, and takes nothing away that its author wrote."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.gpupool import Toleration
from tests.webhook import world
from tests.webhook.test_fuzz import POOL_AFFINITY, reviews
from webhook.decision import pod_patch, review
from webhook.decision.affinity import ENTRIES, PODS, PREFERRED, REQUIRED
from webhook.decision.pod_patch import Additions
from webhook.decision.records import UserInfo

OURS = {"name": names.CARDS_GATE}
WRITTEN = {names.LABEL_POOL, names.REQUEST_ID, names.DEVICES, names.REQUESTED_BY}
additions = st.builds(
    Additions,
    pool=st.sampled_from("ab"),
    request_id=st.just("r1"),
    tolerations=st.lists(
        st.builds(Toleration, key=st.sampled_from(["gpu", "zone"]), operator=st.just("Exists")), max_size=2
    ),
    runtime_class=st.sampled_from([None, "nvidia"]),
    affinity=st.sampled_from([{}, POOL_AFFINITY]),
    person=st.sampled_from([None, UserInfo(username="jane")]),
)


def read(body: dict[str, Any]) -> dict[str, Any]:
    """The pod of a review, as it was sent; one that cannot be read gets no patch."""
    parsed = review.parse(orjson.dumps(body))
    assume(isinstance(parsed, review.Request))
    assert isinstance(parsed, review.Request)
    return parsed.raw


def part(spec: dict[str, Any], *path: str) -> Any:
    """What is at the path; None where nothing is."""
    found: Any = spec
    for key in path:
        found = (found or {}).get(key)
    return found


def has_all(made: dict[str, Any], term: dict[str, Any]) -> bool:
    """Whether a node that matches the one matches the other."""
    return all(entry in (made.get(field) or ()) for field in ENTRIES for entry in term.get(field) or ())


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(reviews, additions)
def test_a_pod_that_waits_loses_nothing_that_it_had(body: dict[str, Any], added: Additions) -> None:
    raw = read(body)
    made = world.apply_patch(raw, pod_patch.queued(raw, added))
    before, after = raw["spec"], made["spec"]

    own = before.get("schedulingGates") or []
    assert after["schedulingGates"] == (own if OURS in own else [*own, OURS])

    for field in ("labels", "annotations"):
        kept = {key: value for key, value in (raw["metadata"].get(field) or {}).items() if key not in WRITTEN}
        assert kept.items() <= made["metadata"][field].items()
    assert made["metadata"]["labels"][names.LABEL_POOL] == added.pool
    assert made["metadata"]["annotations"][names.REQUEST_ID] == "r1"
    assert names.DEVICES not in made["metadata"]["annotations"]

    own = before.get("tolerations") or []
    assert (after.get("tolerations") or [])[: len(own)] == own
    assert after["topologySpreadConstraints"] == (before.get("topologySpreadConstraints") or [pod_patch.NO_SPREAD])
    for field in ("nodeSelector", "runtimeClassName", "serviceAccountName", "priority"):
        if before.get(field):
            assert after[field] == before[field]

    required = part(before, "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
    joined = after["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    for term in required or ():
        assert any(has_all(one, term) for one in joined)
    for one in joined:
        assert required is None or any(has_all(one, term) for term in required), "no node is allowed that was not"
    for kind in ("nodeAffinity", *PODS):
        for field in (REQUIRED, PREFERRED) if kind in PODS else (PREFERRED,):
            own = part(before, "affinity", kind, field) or []
            assert (part(after, "affinity", kind, field) or [])[: len(own)] == own


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(reviews, additions)
def test_the_copy_of_a_pod_that_waits_is_changed_in_its_request_alone(body: dict[str, Any], added: Additions) -> None:
    raw = read(body)
    once = world.apply_patch(raw, pod_patch.queued(raw, added))
    assert pod_patch.queued(once, added) == ()
    other = Additions(**{name: getattr(added, name) for name in Additions.__slots__} | {"request_id": "r2"})
    path = f"/metadata/annotations/{names.REQUEST_ID.replace('/', '~1')}"
    assert pod_patch.queued(once, other) == ({"op": "add", "path": path, "value": "r2"},)


def test_the_copy_of_a_pod_that_had_cards_waits_without_them() -> None:
    """It rather goes to where that one's cards are, as it says; the cards are not its own."""
    made = {"metadata": {"annotations": {names.DEVICES: "n1-0", names.REQUESTED_BY: "{}", names.REQUEST_ID: "r0"}}}
    patch = pod_patch.queued(made | {"spec": {}}, Additions(pool="a", request_id="r1"))
    assert world.apply_patch(made | {"spec": {}}, patch)["metadata"]["annotations"] == {names.REQUEST_ID: "r1"}
