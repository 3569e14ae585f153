"""docs/alerts.md: a section for each alert and none else, and a table that says what rules and code say."""

from __future__ import annotations

import re
from functools import cache

import pytest

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.driver.drivers.conditions import CONDITIONS
from tests.docs.site import MODULE, anchors, front_matter
from tests.monitoring.rules import ROOT, alerts, metrics_in
from tests.test_docs_conditions import rows as conditions_page

PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
PAGE_ON_SITE = "alerts"
EVENTS = {value for name, value in vars(names).items() if name.startswith("EVENT_")}
KINDS = {value for name, value in vars(kinds).items() if name.isupper() and isinstance(value, str)} | CONDITIONS.keys()


@cache
def table() -> dict[str, list[str]]:
    """The rest of each alert's row."""
    lines = [line for line in PAGE.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {first.strip("` "): rest for first, *rest in cells}


@cache
def sections() -> dict[str, str]:
    """The text of each section."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("name", ["alerts.md", "alerts.ru.md"])
def test_every_runbook_url_leads_to_a_section_of_a_page_that_the_site_has(name: str) -> None:
    """The chart makes `/modules/gpu-control-plane/alerts.html` of it, whose sections are the same in both languages."""
    page = ROOT / "docs" / name
    links = {alert.annotations["runbook_url"] for alert in alerts()}

    assert {link.partition("#")[0] for link in links} == {"docs/alerts.md"}
    assert {link.partition("#")[2] for link in links} <= anchors(page)
    assert {"title", "description", "weight"} <= front_matter(page).keys()
    assert PAGE_ON_SITE in MODULE
    template = (ROOT / "templates" / "monitoring.yaml").read_text(encoding="utf-8")
    assert f'"/modules/{names.MODULE}/{PAGE_ON_SITE}.html"' in template


def words(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


def test_every_alert_has_its_section_and_every_section_its_alert() -> None:
    known = [alert.name for alert in alerts()]

    assert list(sections()) == list(dict.fromkeys(table()))
    assert set(sections()) == set(known)
    # The anchors of runbook_url: an alert's name in small letters.
    assert len({name.lower() for name in known}) == len(set(known))


@pytest.mark.parametrize("name", sorted(table()))
def test_a_row_says_what_the_rules_read(name: str) -> None:
    read = {metric for alert in alerts() if alert.name == name for metric in metrics_in(alert.expr)}

    assert words(table()[name][0]) == read


@pytest.mark.parametrize("name", sorted(table()))
def test_a_row_names_events_and_conditions_that_there_are(name: str) -> None:
    _, event, condition = table()[name]

    assert words(event) <= EVENTS
    assert event.startswith("none") or name in words(event), "the event has another name than the alert"
    reasons = {reason for _, _, reason in conditions_page()}
    assert words(condition) <= KINDS | reasons
    assert condition.startswith("none") or words(condition) & KINDS


@pytest.mark.parametrize("name", sorted(table()))
def test_a_section_tells_severity_and_patience_as_the_rules_have_them(name: str) -> None:
    text = sections()[name].partition("\n\n- ")[0]
    for alert in alerts():
        if alert.name == name:
            amount, unit = alert.wait[:-1], {"m": "minute", "h": "hour", "s": ""}[alert.wait[-1]]
            plural = "" if amount == "1" else "s"
            assert f"everity {alert.labels['severity_level']}" in text
            assert ("at once" if amount == "0" else f"after {amount} {unit}{plural}") in text


def test_an_event_named_as_an_alert_is_in_its_row() -> None:
    """What is said in two ways is said to be."""
    for name in {alert.name for alert in alerts()} & EVENTS:
        assert name in words(table()[name][1])
