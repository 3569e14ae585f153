"""What the installation leaves open is said by the module, by the settings that would close it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controllers.api import installation, names
from tests.templates.containers import the_container
from tests.templates.test_deployments import deployments
from webhook import __main__, metrics

pytestmark = pytest.mark.cluster
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text("utf-8")
VALUES = "gpuControlPlane"
ASKED, RESERVED = f"{VALUES}.webhook.askedFrom={{10.0.0.1/32}}", f"{VALUES}.policies.reserveRuntimeClasses=true"
HOST, WRITERS = f"{VALUES}.controllers.hostNetwork=true", f"{VALUES}.policies.statusWriters={{somebody}}"


def told(*sets: str) -> list[str]:
    """What the webhook is told by its flags, which it takes."""
    args = the_container(deployments(*sets)[names.WEBHOOK])["args"]
    found: list[str] = __main__.parser().parse_args(args).open_setting
    return found


@pytest.mark.parametrize(
    ("sets", "open_"),
    [
        ((), ["webhook.askedFrom", "policies.reserveRuntimeClasses"]),
        ((ASKED,), ["policies.reserveRuntimeClasses"]),
        ((ASKED, RESERVED), []),
        ((ASKED, RESERVED, HOST), ["controllers.hostNetwork"]),
        ((ASKED, RESERVED, WRITERS), ["policies.statusWriters"]),
    ],
)
def test_the_webhook_is_told_of_each_and_no_other(sets: tuple[str, ...], open_: list[str]) -> None:
    assert told(*sets) == open_


def the_part() -> str:
    """What the page says of such settings."""
    return PAGE.partition("### Settings that leave something open")[2].partition("\n## ")[0]


def test_the_page_has_a_row_for_each() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \|", the_part(), re.MULTILINE)
    assert sorted(rows) == sorted(told(HOST, WRITERS))


def test_of_a_setting_that_is_empty_and_opens_nothing_the_page_says_why() -> None:
    """Whoever reaches the metrics' port reads nothing there without the right to, wherever they come from."""
    assert installation.ControllersInstallation().scraped_from == []
    assert "controllers.scrapedFrom" not in told()
    assert "`controllers.scrapedFrom` is no such setting" in the_part()


def test_it_says_so_as_a_metric() -> None:
    __main__._tell_open(["a", "b"])
    samples = [sample for family in metrics.SETTING_OPEN.collect() for sample in family.samples]
    assert {sample.labels["setting"]: sample.value for sample in samples} == {"a": 1, "b": 1}
    metrics.SETTING_OPEN.clear()
