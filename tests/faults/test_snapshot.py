"""Two runs are compared by what lasts, and by nothing that is new each time."""

from __future__ import annotations

from typing import Any

from controllers.api import names
from reliability.faults.snapshot import GONE, alike, differences, mask, picture

ONE, OTHER = "5b3f2b1e-0000-4000-8000-000000000000", "6b3f2b1e-0000-4000-8000-000000000000"


def card(name: str, **status: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": ONE, "resourceVersion": "7", "labels": {"a": "b"}}
    return {"metadata": meta, "status": {"state": "Assigned", "lastUpdated": "2026-01-02T03:04:05Z", **status}}


def asking(name: str, uid: str = ONE, ready: str = "True", **meta: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team", "uid": uid, **meta}
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": metadata, "spec": {"nodeName": "n"}, "status": status}


def test_a_picture_leaves_out_what_is_new_each_time_and_nothing_else() -> None:
    one, other = card("a"), card("a")
    other["metadata"] |= {"uid": "6b3f2b1e-0000-4000-8000-000000000000", "resourceVersion": "8"}
    other["status"]["lastUpdated"] = "2026-09-09T09:09:09Z"

    assert picture({("GPUDevice", "a"): one}) == picture({("GPUDevice", "a"): other})
    other["status"]["state"] = "Faulted"
    found = differences(picture({("GPUDevice", "a"): one}), picture({("GPUDevice", "a"): other}))
    assert list(found) == ["GPUDevice a.status.state"]


def test_a_run_in_which_an_hour_ends_is_as_any_other() -> None:
    def driver(*hours: str) -> dict[str, Any]:
        spent = [{"hour": hour, "gpuSeconds": 24} for hour in hours]
        return {"metadata": {"name": "main"}, "status": {"spent": spent, "observedGeneration": 2}}

    one, other = driver("2026-01-02T03:00:00Z"), driver("2026-01-02T03:00:00Z", "2026-01-02T04:00:00Z")
    assert picture({("GPUDriver", "main"): one}) == picture({("GPUDriver", "main"): other})


def test_a_daemonsets_pods_are_known_by_node() -> None:
    def pod(name: str) -> dict[str, Any]:
        meta = {"name": name, "namespace": "d8", "ownerReferences": [{"kind": "DaemonSet", "name": "plugin"}]}
        return {"metadata": meta, "spec": {"nodeName": "n"}, "status": {}}

    assert picture({("Pod", "d8/a"): pod("a")}) == picture({("Pod", "d8/b"): pod("b")})


def test_of_what_a_node_says_of_itself_our_condition_counts_alone() -> None:
    def node(**conditions: str) -> dict[str, Any]:
        told = [{"type": kind, "status": status, "reason": "x"} for kind, status in conditions.items()]
        return {("Node", "n"): {"metadata": {"name": "n"}, "status": {"conditions": told}}}

    ready, lost = (
        node(**{names.NODE_READY: "True", "Ready": "True"}),
        node(**{names.NODE_READY: "True", "Ready": "False"}),
    )
    assert picture(ready) == picture(lost)
    (path,) = differences(picture(ready), picture(node(**{names.NODE_READY: "False"})))
    assert names.NODE_READY in path


def test_a_mask_hides_only_what_differed_between_references() -> None:
    one, other, third = {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2, "c": 1}, {"a": 1, "b": 1}
    hidden = mask([one, other, third])

    assert hidden == {"b", "c"}
    assert list(differences(one, {"a": 9, "b": 9}, hidden)) == ["a"]


def test_what_a_list_has_twice_is_seen_twice() -> None:
    twice = card("a", allocations=[{"pod": "p", "slots": 1}, {"pod": "p", "slots": 2}])

    found = picture({("GPUDevice", "a"): twice})

    assert [found[f"GPUDevice a.status.allocations[{key}].slots"] for key in ("p", "p#2")] == [1, 2]


def test_an_allocation_is_told_by_the_pod_that_has_its_uid_now() -> None:
    serves = card("a", allocations=[{"podUID": OTHER, "pod": "p"}])
    place = "GPUDevice a.status.allocations[p].podUID"

    assert picture({("GPUDevice", "a"): serves, ("Pod", "team/p"): asking("p", OTHER)})[place] == "<Pod team/p>"
    assert picture({("GPUDevice", "a"): serves, ("Pod", "team/p"): asking("p", "u")})[place] == GONE


def test_a_reservation_is_told_by_its_pod() -> None:
    held = card("a", reservations=[{"requestID": OTHER}])
    asks = asking("p", "u", annotations={names.REQUEST_ID: OTHER})

    found = picture({("GPUDevice", "a"): held, ("Pod", "team/p"): asks})

    assert found["GPUDevice a.status.reservations[0].requestID"] == "<request of Pod team/p>"


def test_an_object_whose_owner_is_gone_is_not_as_one_whose_owner_is_there() -> None:
    owned = {"metadata": {"name": "c", "ownerReferences": [{"kind": "GPUDevice", "name": "a", "uid": ONE}]}}
    kept = picture({("ConfigMap", "c"): owned, ("GPUDevice", "a"): card("a")})
    again = card("a")
    again["metadata"]["uid"] = OTHER
    orphan = picture({("ConfigMap", "c"): owned, ("GPUDevice", "a"): again})

    assert differences(kept, orphan) == {
        "ConfigMap c.metadata.owners[0]": ("<GPUDevice a>", f"<GPUDevice a> {GONE}"),
    }


def test_pods_that_are_alike_are_counted_each() -> None:
    def burst(*ready: str) -> dict[str, Any]:
        pods = {("Pod", f"team/p-{n}"): asking(f"p-{n}", ready=is_ready) for n, is_ready in enumerate(ready)}
        return alike(picture(pods), ((r"\bp-\d\b", "p"),))

    place = "Pod team/p.ready[0]"
    assert burst("True", "True", "True", "True")[place] == ["True"] * 4
    assert differences(burst("True", "True", "True", "True"), burst("False", "False", "False", "True"))
    assert not differences(burst("False", "True"), burst("True", "False"))
    assert place in differences(burst("True", "True"), burst("True"))


def test_a_secret_is_there_or_not_and_its_data_are_no_news() -> None:
    def secret(text: str) -> dict[str, Any]:
        return {"metadata": {"name": "tls", "namespace": "d8"}, "data": {"tls.crt": text}}

    one, other = picture({("Secret", "d8/tls"): secret("x")}), picture({("Secret", "d8/tls"): secret("y")})

    assert one == other
    assert differences(one, picture({}))


def test_a_webhook_configuration_counts_but_for_its_authority_and_port() -> None:
    def configured(bundle: str, port: int, policy: str = "Fail") -> dict[str, Any]:
        client = {"caBundle": bundle, "url": f"https://127.0.0.1:{port}/pods"}
        hook = {"name": "pods", "clientConfig": client, "failurePolicy": policy}
        return {"metadata": {"name": "gpu"}, "webhooks": [hook]}

    key = ("MutatingWebhookConfiguration", "gpu")
    one = picture({key: configured("x", 1)})

    assert one == picture({key: configured("y", 2)})
    assert differences(one, picture({key: configured("x", 1, "Ignore")}))
