"""The judgement itself: what it finds, and what it lets pass, on grants and uses that are made up."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from tests.rbac import audit, grants
from tests.rbac.audit import Use
from tests.rbac.grants import Grant
from tests.rbac.judge import Exempt, problems

SPACE = "d8-gpu-operator"
ROLE = 'ClusterRole "d8:x"'
LIST = Grant("x", "", "pods", "list", role=ROLE, file="templates/x/rbac-for-us.yaml")
GET = Grant("x", "apps", "deployments", "get", "one", SPACE, 'Role "x/d8-gpu-operator"', "templates/x/rbac-for-us.yaml")
LISTED = Use("x", "", "pods", "list", program="x", role=ROLE)
GOT = Use("x", "apps", "deployments", "get", "one", SPACE, "x", 'Role "x/d8-gpu-operator"')


def test_grants_that_are_used_are_well() -> None:
    assert problems([LIST, GET], [LISTED, GOT]) == []


def test_a_verb_more_is_found_with_its_rule_and_file() -> None:
    (found,) = problems([LIST, replace(LIST, verb="delete")], [LISTED])
    assert found == f"granted and never used: x: delete pods ({ROLE} in templates/x/rbac-for-us.yaml)"


def test_a_verb_less_is_found_with_the_request() -> None:
    found = problems([LIST], [LISTED, replace(GOT, role="")])
    assert found == ["used and not granted: x: get deployments.apps one in d8-gpu-operator"]


def test_what_another_binding_allows_is_found() -> None:
    (found,) = problems([LIST], [LISTED, replace(GOT, role='ClusterRole "view"')])
    assert found == 'allowed by another\'s role: x: get deployments.apps one in d8-gpu-operator (ClusterRole "view")'


def test_what_a_stand_in_does_says_nothing_about_the_program() -> None:
    (found,) = problems([LIST, GET], [LISTED, replace(GOT, program="sim-node-agent")])
    assert found.startswith("granted and never used: x: get deployments.apps one")


def test_another_object_or_namespace_is_no_use_of_a_grant() -> None:
    for other in (replace(GOT, name="two"), replace(GOT, namespace="default")):
        assert problems([LIST, GET], [LISTED, other])[0].startswith("granted and never used: x: get deployments")


def test_a_grant_for_every_namespace_that_is_used_in_one_is_too_wide() -> None:
    wide = replace(GET, namespace="", name="", role=ROLE)
    (found,) = problems([wide], [replace(GOT, role=ROLE)])
    assert found.startswith("granted in every namespace and used in one alone: x: get deployments.apps")
    assert problems([wide], [replace(GOT, role=ROLE), replace(GOT, role=ROLE, namespace="other")]) == []


def test_a_watch_of_one_object_under_a_grant_for_all_is_too_wide() -> None:
    (found,) = problems([LIST], [replace(LISTED, name="one")])
    assert found.startswith("granted for all objects and used for one alone: x: list pods")
    assert problems([LIST], [replace(LISTED, name="one"), LISTED]) == []


def test_what_is_granted_twice_is_found() -> None:
    (found,) = problems([LIST, replace(LIST, namespace=SPACE)], [LISTED, replace(LISTED, namespace=SPACE)])
    assert found.startswith("granted twice: x: list pods in d8-gpu-operator")


def test_an_identity_that_nothing_plays_is_found() -> None:
    assert problems([LIST], []) == ["nothing plays x, so nobody knows what it needs"]


def test_an_exception_holds_and_fails_once_it_is_not_needed() -> None:
    more = replace(LIST, verb="delete")
    known = Exempt("unused", "x", "pods", ("delete",), "why")
    assert problems([LIST, more], [LISTED], [known]) == []
    needless = ["an exception that is not needed: x: delete pods (unused)"]
    assert problems([LIST, more], [LISTED, replace(LISTED, verb="delete")], [known]) == needless
    assert problems([LIST], [LISTED], [known]) == needless


CHART = """
---
# Source: gpu-control-plane/templates/x/rbac-for-us.yaml
apiVersion: v1
kind: ServiceAccount
metadata: {name: x, namespace: d8-gpu-operator}
---
# Source: gpu-control-plane/templates/x/rbac-for-us.yaml
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: x, namespace: d8-gpu-operator}
rules:
- {apiGroups: ["apps"], resources: ["deployments"], resourceNames: ["one"], verbs: ["get"]}
---
# Source: gpu-control-plane/templates/x/rbac-for-us.yaml
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: x, namespace: d8-gpu-operator}
roleRef: {kind: Role, name: x}
subjects: [{kind: ServiceAccount, name: x, namespace: d8-gpu-operator}]
"""


def test_grants_are_read_from_what_helm_renders() -> None:
    assert grants.read(CHART, SPACE).grants == (GET,)


def test_a_binding_to_a_role_of_somebody_elses_is_refused() -> None:
    with pytest.raises(LookupError, match="x is bound to Role"):
        grants.read(CHART.replace("roleRef: {kind: Role, name: x}", "roleRef: {kind: Role, name: view}"), SPACE)


def _event(**changes: object) -> bytes:
    allowed = 'RBAC: allowed by RoleBinding "x/d8-gpu-operator" of Role "x" to ServiceAccount "x/d8-gpu-operator"'
    event = {
        "verb": "get",
        "user": {"username": f"system:serviceaccount:{SPACE}:x"},
        "userAgent": "x/lease",
        "objectRef": {"resource": "deployments", "namespace": SPACE, "name": "one", "apiGroup": "apps"},
        "responseStatus": {"code": 200},
        "annotations": {audit.DECISION: "allow", audit.REASON: allowed},
    }
    return orjson.dumps(event | changes)


def test_uses_are_read_from_the_log() -> None:
    assert audit.read(_event(), SPACE) == {GOT}


def test_a_refusal_is_a_use_that_no_role_allows() -> None:
    refused = {audit.DECISION: "forbid", audit.REASON: ""}
    assert audit.read(_event(annotations=refused), SPACE) == {replace(GOT, role="")}


@pytest.mark.parametrize(("code", "verbs"), [(200, {"patch"}), (201, {"patch", "create"}), (409, {"patch"})])
def test_an_apply_that_makes_an_object_is_a_creation_too(code: int, verbs: set[str]) -> None:
    found = audit.read(_event(verb="patch", responseStatus={"code": code}), SPACE)
    assert {use.verb for use in found} == verbs


def test_others_are_left_out() -> None:
    assert audit.read(_event(user={"username": "system:serviceaccount:other:x"}), SPACE) == frozenset()
