"""A comparison as text of 80 columns: a line for a node that is fine, details for others, what to do next. Pure."""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from itertools import groupby
from typing import TYPE_CHECKING

from controllers.domain.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from controllers.inventory.coverage.comparison.result import Issue, ModelResult, NodeResult, Result

WIDTH = 80
SHOWN = 12
"""Findings of one kind on one node, and nodes of one model; the other outputs have all."""
NAME_MAX = 40
COMMAND = ": kubectl "
"""What stands behind it in a remedy is a command, to its end."""


def render(result: Result) -> str:
    """The whole text."""
    blocks = [_cluster(result), _nodes(result.nodes)]
    blocks += [_model(model) for model in result.models]
    blocks += [_summary(result), _next(result)]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def _cluster(result: Result) -> list[str]:
    if not result.findings:
        return []
    return ["FAIL  the whole cluster", *_details(result.findings)]


def _nodes(nodes: Sequence[NodeResult]) -> list[str]:
    width = min(NAME_MAX, max((len(node.name) for node in nodes), default=0))
    return [line for node in nodes for line in (_head(node, width), *_details(node.findings))]


def _head(node: NodeResult, width: int) -> str:
    failed = any(not finding.note for finding in node.findings)
    mark = "FAIL" if failed else "note" if node.findings else "ok"
    labels = _count(node.labels, "label") if node.labels else "no labels"
    cards = _count(node.cards, "card") if node.cards else "no cards"
    wrong = f"; {_count(len(node.findings), 'finding')}" if node.findings else ""
    return f"{mark:<5} {node.name:<{width}}  {cards}, {labels}{wrong}"


def _details(findings: Iterable[Issue]) -> Iterator[str]:
    """Findings with the same remedy together."""
    for (reason, todo), group in groupby(findings, key=lambda one: (one.reason, one.todo)):
        members = list(group)
        yield f"      {reason}"
        for one in members[:SHOWN]:
            yield from _wrapped(f"{one.about}: {one.found}; expected {one.expected}", "        ", "          ")
        if len(members) > SHOWN:
            yield f"        and {len(members) - SHOWN} more (-o json has all)"
        words, _, command = todo.partition(COMMAND)
        yield from _wrapped(f"→ {words}{':' if command else ''}", "        ", "          ")
        if command:
            # To be copied in one piece.
            yield f"    kubectl {command}"


TITLES = {
    "Unknown": "unknown model",
    "Contradicts": "model unlike the catalogue's",
    "Incomplete": "model without a MIG geometry",
}
REMEDIES = {
    "Unknown": "add to {file}, and fill in what is marked:",
    "Contradicts": "correct its entry in {file}, with the source",
    "Incomplete": "add the placements (nvidia-smi mig -lgip and -lgipp) to mig.toml beside {file}, and the name of"
    " that section to the card; until then the card serves undivided",
}


def _model(model: ModelResult) -> list[str]:
    name = " / ".join(model.products) or "(no driver has named it)"
    facts = [_count(model.count, "card"), *(f"{size} MiB" for size in model.memory_mib)]
    facts += [f"compute capability {one}" for one in model.compute]
    lines = [*_wrapped(f"{TITLES[model.problem]}: {model.vendor}:{model.device} {name}", "", "  ")]
    lines += _wrapped(f"{', '.join(facts)} on {listed(model.nodes, SHOWN)}", "  ", "  ")
    if model.mig_profiles and not model.differences:
        lines += _wrapped(f"MIG profiles {', '.join(model.mig_profiles)}", "  ", "    ")
    for difference in model.differences:
        lines += _wrapped(difference, "  ", "    ")
    lines += _wrapped(f"→ {REMEDIES[model.problem].format(file=model.file)}", "  ", "    ")
    return [*lines, *(["", *model.entry.splitlines()] if model.entry else [])]


def _summary(result: Result) -> list[str]:
    bad = [node for node in result.nodes if any(not finding.note for finding in node.findings)]
    cards = sum(node.cards for node in result.nodes)
    text = f"{_count(len(result.nodes), 'node')}: {len(result.nodes) - len(bad)} as expected, {len(bad)} not"
    text += f"; {_count(cards, 'card')} on record as reported"
    if result.models:
        text += f"; {_count(len(result.models), 'model')} not as in the catalogue"
    where: dict[str, list[str]] = defaultdict(list)
    times = Counter[str]()
    for node in result.nodes:
        for finding in node.findings:
            times[finding.reason] += 1
            if node.name not in where[finding.reason]:
                where[finding.reason].append(node.name)
    lines = list(_wrapped(text, "", "  "))
    for reason, names in sorted(where.items()):
        lines += _wrapped(f"{times[reason]} × {reason} on {listed(names, SHOWN)}", "  ", "    ")
    return lines


def _next(result: Result) -> list[str]:
    steps = []
    if result.findings:
        steps.append("Begin with the whole cluster: findings of nodes may be its consequence.")
    if any(node.findings for node in result.nodes):
        steps.append("On each node, do what its arrows (→) say; --wait 120 looks again until it holds.")
    if result.models:
        steps.append("Complete the catalogue. Cards work without; what only the catalogue tells is missing for them.")
    if not steps:
        return ["All is as expected."]
    return ["Next:", *(line for step in steps for line in _wrapped(f"- {step}", "", "  "))]


def _wrapped(text: str, first: str, rest: str) -> Iterator[str]:
    """Lines of at most 80 columns; a word, such as a label's key, is never cut."""
    printable = "".join(char if char.isprintable() else "�" for char in text)
    yield from textwrap.wrap(
        printable,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
