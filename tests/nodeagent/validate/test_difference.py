"""What a role of the validator writes into the report, and what it leaves to others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.api.nodefeature import NodeFeature
from controllers.api.record import adapter
from nodeagent.validate.checks import difference

if TYPE_CHECKING:
    from collections.abc import Mapping

WANT = {"container": "ok", "container.cards": "1"}
CARDS = [{"address": "0000:17:00.0", "uuid": "GPU-1"}]
ANOTHER = [{"address": "0000:17:00.0", "uuid": "GPU-2"}]


def report(elements: Mapping[str, str] | None, cards: list[dict[str, str]] | None = None) -> NodeFeature:
    attributes = {names.FEATURE_VALIDATION: {"elements": elements}} if elements is not None else {}
    told = {names.FEATURE_NVML: {"elements": [{"attributes": each} for each in cards]}} if cards is not None else {}
    return adapter(NodeFeature).validate_python(
        {
            "metadata": {"name": "gpu-n1", "namespace": names.NAMESPACE, "uid": "u", "resourceVersion": "7"},
            "spec": {"features": {"attributes": attributes, "instances": told}},
        }
    )


@pytest.mark.parametrize(
    "have",
    [
        report(None),
        report({}, CARDS),
        report(WANT | {"container.cards": "2"}, CARDS),
        report(WANT, ANOTHER),
        report(WANT),
        report(WANT | {"container.odd": "x"}, CARDS),
    ],
    ids=["no feature", "no verdict", "another verdict", "another card", "no cards", "a key of others"],
)
def test_a_report_that_says_otherwise_is_applied_whole_and_by_its_uid(have: NodeFeature) -> None:
    (write,) = difference.applies(have, "container", WANT, CARDS)
    assert (write.ref.name, write.ref.uid) == ("gpu-n1", "u")
    features = write.body["spec"]["features"]
    assert features["attributes"][names.FEATURE_VALIDATION]["elements"] == WANT
    assert features["instances"][names.FEATURE_NVML]["elements"] == [{"attributes": CARDS[0]}]


def test_a_report_that_says_so_is_left_alone_whatever_the_other_role_says() -> None:
    have = report(WANT | {"driver": "failed", "driver.reason": "LibraryMismatch"}, CARDS)
    assert difference.applies(have, "container", WANT, CARDS) == ()
    assert difference.removals(have, "container", WANT, CARDS) == ()


def test_role_driver_says_nothing_of_cards_and_leaves_those_of_the_container() -> None:
    have = report({"driver": "failed"}, CARDS)
    (write,) = difference.applies(have, "driver", {"driver": "ok"}, [])
    assert "instances" not in write.body["spec"]["features"]
    assert difference.applies(report({"driver": "ok"}, CARDS), "driver", {"driver": "ok"}, []) == ()
    assert difference.removals(report({"driver": "ok"}, CARDS), "driver", {"driver": "ok"}, []) == ()


def test_what_others_wrote_under_its_names_is_taken_out_and_nothing_else() -> None:
    have = report(WANT | {"container.odd": "x", "driver": "ok"}, ANOTHER)
    (write,) = difference.removals(have, "container", WANT, CARDS)
    assert (write.ref.uid, write.resource_version) == ("u", "7")
    assert write.body["spec"]["features"] == {
        "attributes": {names.FEATURE_VALIDATION: {"elements": {"container.odd": None}}},
        "instances": {names.FEATURE_NVML: None},
    }


def test_each_role_has_a_field_manager_of_its_own() -> None:
    """Under one, the apply of each would take the other's keys away."""
    assert {difference.manager(role) for role in ("driver", "container")} == {
        "gpu-nodeagent-validate-driver",
        "gpu-nodeagent-validate-container",
    }
