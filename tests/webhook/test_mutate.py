"""The patch: what a pod says after it, whatever it said before."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.gpupool import Toleration
from controllers.api.record import adapter
from controllers.domain.node_fit import PodConstraints, node_fits
from controllers.domain.placement.choice import Placement, Share
from tests.kit import objects
from tests.webhook import world
from webhook.decision import pod_patch
from webhook.decision.affinity import PREFERRED, REQUIRED
from webhook.decision.records import AdmissionPodSpec, UserInfo

POOL_LABEL = {"key": names.pool_node_label("a"), "operator": "Exists"}
HERE = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
TOLERATION = Toleration(key="gpu", operator="Equal", value="a", effect="NoSchedule")


SHARES = tuple(Share(objects.card("n1", meta={"name": name}, inventory_id=name), 1) for name in ("d1", "d2"))


def patch(raw: dict[str, Any], **changes: Any) -> pod_patch.Patch:
    parts: dict[str, Any] = {"pool": "a", "request_id": "r1", "tolerations": [TOLERATION], "runtime_class": "nvidia"}
    return pod_patch.admitted(raw, pod_patch.Additions(**parts | changes), Placement("n1", SHARES))


def patched(raw: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return world.apply_patch(raw, patch(raw, **changes))


def test_a_bare_pod_gets_everything() -> None:
    made = patched({"metadata": {"name": "p"}, "spec": {"containers": []}})
    assert made["metadata"] == {
        "name": "p",
        "labels": {names.LABEL_POOL: "a"},
        "annotations": {names.REQUEST_ID: "r1", names.DEVICES: "d1,d2"},
    }
    assert made["spec"] == {
        "containers": [],
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [POOL_LABEL]}]},
                PREFERRED: [{"weight": 100, "preference": HERE}],
            }
        },
        "tolerations": [{"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [pod_patch.NO_SPREAD],
        "runtimeClassName": "nvidia",
    }


def test_null_parents_are_replaced() -> None:
    made = patched({"metadata": {"labels": None, "annotations": None}, "spec": {"affinity": None, "tolerations": None}})
    assert made == patched({"metadata": {}, "spec": {}})


def test_keys_that_a_pod_brings_are_overwritten_and_others_kept() -> None:
    meta = {
        "labels": {names.LABEL_POOL: "other", "app": "x"},
        "annotations": {names.REQUEST_ID: "stolen", "a/b~c": "y"},
    }
    made = patched({"metadata": meta, "spec": {"runtimeClassName": "own"}})
    assert made["metadata"]["labels"] == {names.LABEL_POOL: "a", "app": "x"}
    assert made["metadata"]["annotations"] == {names.REQUEST_ID: "r1", names.DEVICES: "d1,d2", "a/b~c": "y"}
    assert made["spec"]["runtimeClassName"] == "own"


def test_a_person_is_noted_where_the_access_rests_on_one_and_none_is_brought() -> None:
    brought = {"metadata": {"annotations": {names.REQUESTED_BY: '{"username":"eve"}', "a": "b"}}, "spec": {}}
    assert names.REQUESTED_BY not in patched(brought)["metadata"]["annotations"]
    jane = UserInfo(username="jane", groups=("ml",))
    for raw in (brought, {"metadata": {}, "spec": {}}):
        made = patched(raw, person=jane)["metadata"]["annotations"]
        assert made[names.REQUESTED_BY] == '{"username":"jane","groups":["ml"]}'
    assert world.apply_patch(brought, pod_patch.remove_marks(brought))["metadata"]["annotations"] == {"a": "b"}


def test_the_pool_is_anded_into_every_term() -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]},
    ]
    made = patched({"metadata": {}, "spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}})
    narrowed = made["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert narrowed == [
        {"matchExpressions": [*terms[0]["matchExpressions"], POOL_LABEL]},
        {"matchFields": terms[1]["matchFields"], "matchExpressions": [POOL_LABEL]},
    ]


def test_an_empty_term_matches_no_node_and_stays_so() -> None:
    spec = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}}
    assert patched({"metadata": {}, "spec": spec})["spec"]["affinity"]["nodeAffinity"][REQUIRED] == {
        "nodeSelectorTerms": [{}]
    }


def test_a_toleration_that_is_there_is_not_repeated() -> None:
    there = [{"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"}]
    assert not any("tolerations" in op["path"] for op in patch({"metadata": {}, "spec": {"tolerations": there}}))


def test_marks_of_a_pod_that_reserves_nothing_are_removed() -> None:
    meta = {"labels": {names.LABEL_POOL: "a", "app": "x"}, "annotations": {names.DEVICES: "d", names.REQUEST_ID: "r"}}
    raw = {"metadata": meta, "spec": {}}
    assert world.apply_patch(raw, pod_patch.remove_marks(raw)) == {
        "metadata": {"labels": {"app": "x"}, "annotations": {}},
        "spec": {},
    }
    assert pod_patch.remove_marks({"metadata": {"labels": None}}) == ()
    assert pod_patch.remove_marks({}) == ()


def spread(existing: Any) -> Any:
    raw = {"metadata": {}, "spec": {"topologySpreadConstraints": existing}}
    return patched(raw)["spec"]["topologySpreadConstraints"]


def test_the_schedulers_own_spread_is_turned_off_and_a_pods_own_is_kept() -> None:
    assert spread(None) == spread([]) == [pod_patch.NO_SPREAD]
    wanted = {each["operator"] for each in pod_patch.NO_SPREAD["labelSelector"]["matchExpressions"]}
    assert wanted == {"Exists", "DoesNotExist"}, "it counts pods, and is a wish against the chosen node"
    own = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    assert spread([own]) == [own]
    assert spread([pod_patch.NO_SPREAD]) == [pod_patch.NO_SPREAD]


def node_terms(*terms: dict[str, Any], preferred: list[Any] | None = None) -> dict[str, Any]:
    affinity: dict[str, Any] = {REQUIRED: {"nodeSelectorTerms": list(terms)}} if terms else {}
    return {"nodeAffinity": affinity | ({PREFERRED: preferred} if preferred else {})}


def expressions_of(*keys: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}


def joined(own: dict[str, Any] | None, added: dict[str, Any]) -> dict[str, Any]:
    made = patched({"metadata": {}, "spec": {"affinity": own}}, affinity=added)
    return made["spec"]["affinity"]


def test_the_pools_terms_are_joined_with_each_of_the_pods() -> None:
    pool = names.pool_node_label("a")
    own, added = node_terms(expressions_of("x"), expressions_of("y")), node_terms(expressions_of("p"))
    assert joined(own, added)["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        expressions_of("x", "p", pool),
        expressions_of("y", "p", pool),
    ]
    two = node_terms(expressions_of("p"), expressions_of("q"))
    assert joined(None, two)["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        expressions_of("p", pool),
        expressions_of("q", pool),
    ]
    assert len(joined(own, two)["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]) == 4
    # Where the pod's own term has one of the pool's, the others mean nothing: a copy of an admitted pod does not grow.
    copied = node_terms(expressions_of("q", "x"))
    assert joined(copied, two)["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [expressions_of("q", "x", pool)]
    # No node matches an empty term, and so none the two together.
    assert joined(node_terms({}), added)["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [{}]


def test_fields_of_the_pools_terms_are_kept() -> None:
    field = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}]}
    (term,) = joined(node_terms(expressions_of("x")), node_terms(field))["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term == {**expressions_of("x", names.pool_node_label("a")), **field}


def test_what_the_pool_prefers_is_added() -> None:
    wish = {"weight": 5, "preference": expressions_of("p")}
    preferred = joined(None, node_terms(preferred=[wish]))["nodeAffinity"][PREFERRED]
    assert preferred == [wish, {"weight": 100, "preference": HERE}]


def test_the_pools_affinity_to_pods_is_added_to_the_pods_own() -> None:
    near, away = {"topologyKey": "zone"}, {"topologyKey": "rack"}
    wish = {"weight": 1, "podAffinityTerm": near}
    own = {"podAffinity": {PREFERRED: [wish]}, "podAntiAffinity": {REQUIRED: [near]}}
    added = {"podAffinity": {REQUIRED: [near]}, "podAntiAffinity": {REQUIRED: [near, away], PREFERRED: None}}
    made = joined(own, added)
    assert made["podAffinity"] == {PREFERRED: [wish], REQUIRED: [near]}
    assert made["podAntiAffinity"] == {REQUIRED: [near, away]}
    assert "podAffinity" not in joined(None, {"podAffinity": {}})
    assert joined({"podAffinity": None}, added)["podAffinity"] == {REQUIRED: [near]}


words = st.text("ab/~.", max_size=6)
expressions = st.lists(
    st.fixed_dictionaries({"key": words, "operator": st.sampled_from(["In", "Exists"]), "values": st.lists(words)}),
    max_size=2,
)
terms = st.fixed_dictionaries({}, optional={"matchExpressions": expressions, "matchFields": expressions})
node_affinity = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.none() | st.fixed_dictionaries({"nodeSelectorTerms": st.lists(terms, max_size=3)}),
        PREFERRED: st.lists(st.fixed_dictionaries({"weight": st.just(1), "preference": terms}), max_size=2),
    },
)
pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "labels": st.none() | st.dictionaries(words | st.just(names.LABEL_POOL), words, max_size=3),
                "annotations": st.none() | st.dictionaries(words | st.just(names.REQUEST_ID), words, max_size=3),
            },
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "affinity": st.none() | st.fixed_dictionaries({}, optional={"nodeAffinity": st.none() | node_affinity}),
                "tolerations": st.none() | st.lists(st.fixed_dictionaries({"key": words}), max_size=2),
                "runtimeClassName": st.none() | words,
            },
        ),
    }
)


@settings(max_examples=300)
@given(pods)
def test_after_the_patch_the_pod_is_marked_bound_to_the_pool_and_otherwise_as_it_was(raw: dict[str, Any]) -> None:
    made = patched(raw)
    meta, spec = made["metadata"], made["spec"]
    assert meta["labels"] == {**(raw["metadata"].get("labels") or {}), names.LABEL_POOL: "a"}
    assert meta["annotations"] == {
        **(raw["metadata"].get("annotations") or {}), names.REQUEST_ID: "r1", names.DEVICES: "d1,d2",
    }  # fmt: skip
    affinity = spec["affinity"]["nodeAffinity"]
    before = ((raw["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    for term in affinity[REQUIRED]["nodeSelectorTerms"]:
        empty = not term.get("matchExpressions") and not term.get("matchFields")
        assert POOL_LABEL in term.get("matchExpressions", []) or (empty and before is not None)
    assert before is None or len(affinity[REQUIRED]["nodeSelectorTerms"]) == len(before["nodeSelectorTerms"])
    assert {"weight": 100, "preference": HERE} in affinity[PREFERRED]
    assert spec["runtimeClassName"] == (raw["spec"].get("runtimeClassName") or "nvidia")
    assert spec["tolerations"][: len(raw["spec"].get("tolerations") or [])] == (raw["spec"].get("tolerations") or [])


@settings(max_examples=200)
@given(pods, st.just({}) | node_affinity.map(lambda found: {"nodeAffinity": found}))
def test_the_patch_of_a_patched_pod_changes_nothing(raw: dict[str, Any], added: dict[str, Any]) -> None:
    assert patch(patched(raw, affinity=added), affinity=added) == ()


small = st.builds(dict, key=st.sampled_from("abc"), operator=st.sampled_from(["Exists", "DoesNotExist"]))
small_terms = st.lists(
    st.fixed_dictionaries({}, optional={"matchExpressions": st.lists(small, max_size=2)}), min_size=1, max_size=3
)


def spec_with(affinity: Any) -> AdmissionPodSpec:
    found: AdmissionPodSpec = adapter(AdmissionPodSpec).validate_python({"affinity": affinity})
    return found


@settings(max_examples=300)
@given(small_terms, small_terms, st.sets(st.sampled_from("abc")))
def test_a_node_matches_what_is_joined_where_it_matches_both(own: Any, theirs: Any, labels: set[str]) -> None:
    node = world.node("n1", pool="a", **dict.fromkeys(labels, "yes"))
    (joint, first, second) = (
        spec_with({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": found}}})
        for found in (
            joined(node_terms(*own), node_terms(*theirs))["nodeAffinity"][REQUIRED]["nodeSelectorTerms"], own, theirs,
        )
    )  # fmt: skip
    assert node_fits(PodConstraints.of(joint), node) == (
        node_fits(PodConstraints.of(first), node) and node_fits(PodConstraints.of(second), node)
    )


@given(st.dictionaries(words, st.integers() | st.dictionaries(words, st.integers()), max_size=4), st.data())
def test_an_overlay_makes_every_value_true(raw: dict[str, Any], data: st.DataObject) -> None:
    wanted = data.draw(st.dictionaries(words, st.integers() | st.dictionaries(words, st.integers()), max_size=4))
    made = world.apply_patch(raw, pod_patch.overlay(raw, wanted))
    for key, value in wanted.items():
        assert made[key].items() >= value.items() if isinstance(value, dict) else made[key] == value
    assert all(made[key] == value for key, value in raw.items() if key not in wanted)
