"""Texts such as exporters write, made anew from facts: the series are real, the words and the layout are ours.

What is odd in the form of a real text is kept by name (`form` in its facts), and is in the text again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.data import facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def exported(dump: str) -> bytes:
    """An exporter's answer."""
    return "".join(f"{line}\n" for line in lines(facts.read(dump))).encode()


def listed(dump: str) -> bytes:
    """An exporter's list of fields: `field, type, help`."""
    fields: dict[str, str] = facts.read(dump)["fields"]
    rows = (f"{field}, {kind}, The value of {field}.\n" for field, kind in fields.items())
    return ("# Fields, their types, and what they are\n\n" + "".join(rows)).encode()


def lines(told: Mapping[str, Any]) -> Iterator[str]:
    """The same by lines, of facts that need not be in a file."""
    form, families = set(told["form"]), told["families"]
    if "title" in form:
        yield from ("A title of somebody's", "")
    if "commands" in form:
        yield from ("$ docker run the-exporter", "$ curl localhost:9400/metrics")
    if "headers first" in form:
        yield from (line for family in families for line in _header(family))
    if "dots" in form:
        yield "..."
    for family in families:
        if "headers first" not in form:
            yield from _header(family)
        separator = ", " if "space after comma" in form else ","
        yield from (
            _sample(family["name"], told["labels"][number], value, separator) for number, value in family["values"]
        )
        if "blank lines" in form:
            yield ""
    if "dots" in form:
        yield "..."


def _header(family: Mapping[str, Any]) -> tuple[str, ...]:
    name = family["name"]
    if "type" not in family:
        return (f"# more of {name}",)
    return f"# HELP {name} The value of {name}.", f"# TYPE {name} {family['type']}"


def _sample(name: str, labels: Iterable[tuple[str, str]], value: str, separator: str) -> str:
    pairs = separator.join(f'{key}="{text}"' for key, text in labels)
    return f"{name}{{{pairs}}} {value}" if pairs else f"{name} {value}"
