"""Planners do not compare whole conditions, but to see whether something is to be written or told.

A condition, and a Finding, holds a sentence: who compares it decides by that sentence, and a release that words it
otherwise changes what happens. What a planner needs to know later is a field of the status.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.test_architecture import ROOT, parsed
from tests.test_fields_not_sentences import planners

WHOLE = re.compile(r"\b(Condition|Finding)\b")
"""Types, in an annotation, of what holds a sentence."""
MAKERS = frozenset({"Condition", "Finding", "carried", "condition", "condition_for", "find"})
"""Calls that return such, beside functions of the same module whose annotation says so."""
FIELDS = ("conditions", "finding")
"""Attributes that are such."""
NEEDED = {
    "controllers/bootstrap/health/plan.py": {"plan"},
    "controllers/bootstrap/readiness/plan.py": {"_status"},
    "controllers/bootstrap/telemetry/monitor.py": {"_has_changed"},
    "controllers/gpupool/membership/unassigned.py": {"plan_unassigned_status"},
    "controllers/gpupool/node/plan.py": {"_write_inventory_pools"},
    "controllers/gpupool/pool/card_status.py": {"plan_card_status"},
    "controllers/gpupool/queue/wait.py": {"_says"},
    "controllers/inventory/record/card_status.py": {"write_card"},
    "controllers/inventory/record/deleted_node.py": {"_mark_node_gone"},
    "controllers/inventory/record/events.py": {"condition_event"},
    "controllers/inventory/record/inventory_status.py": {"write_inventory"},
}
"""Functions, by file, that compare to see whether the condition itself is to be written, or an Event to be sent."""
EQUALITY = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def comparing(tree: ast.AST) -> set[str]:
    """The functions that compare a whole condition with anything."""
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    makers = MAKERS | {each.name for each in functions if is_whole_type(each.returns)}
    return {each.name for each in functions if compares(each, makers)}


def compares(function: Function, makers: frozenset[str]) -> bool:
    """Whether a function compares what it was given, has found or has made."""
    taken = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    known = {each.arg for each in taken if is_whole_type(each.annotation)}
    bound = [pair for node in ast.walk(function) for pair in bindings(node)]
    for _ in bound:  # a name may be bound to another one
        known |= {name for name, value in bound if is_whole(value, known, makers)}
    return any(
        is_whole(operand, known, makers)
        for node in ast.walk(function)
        if isinstance(node, ast.Compare) and any(isinstance(op, EQUALITY) for op in node.ops)
        for operand in (node.left, *node.comparators)
    )


def is_whole_type(annotation: ast.expr | None) -> bool:
    """Whether an annotation names a condition, or several."""
    return annotation is not None and WHOLE.search(ast.unparse(annotation)) is not None


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names that a node binds, each with its value."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(node, ast.Assign):
        pairs = [(target, node.value) for target in node.targets]
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        pairs = [(node.target, node.value)]
    for target, value in pairs:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            yield from ((t.id, v) for t, v in zip(target.elts, value.elts, strict=False) if isinstance(t, ast.Name))
        elif isinstance(target, ast.Name):
            yield target.id, value


def is_whole(value: ast.expr, known: set[str], makers: frozenset[str]) -> bool:
    """Whether an expression is a condition, or holds one."""
    match value:
        case ast.Name(id=name):
            return name in known
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in makers and not (name == "find" and isinstance(value.func, ast.Attribute) and is_text(value))
        case ast.Attribute(attr=name):
            return name in FIELDS
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.BoolOp(values=parts):
            return any(is_whole(part, known, makers) for part in parts)
        case ast.IfExp(body=one, orelse=other):
            return is_whole(one, known, makers) or is_whole(other, known, makers)
    return isinstance(value, ast.NamedExpr) and is_whole(value.value, known, makers)


def is_text(call: ast.Call) -> bool:
    """Whether it is the method `find` of a string: that of conditions has two arguments."""
    return len(call.args) == 1


def test_planners_compare_conditions_only_to_see_whether_they_are_to_be_written() -> None:
    found = {str(path.relative_to(ROOT)): names for path in planners() if (names := comparing(parsed(path)))}
    assert found == NEEDED, (
        "a field of the status should tell; where a write or an Event hangs on it, name it in NEEDED"
    )


@pytest.mark.parametrize(
    ("code", "is_seen"),
    [
        ("def plan(d):\n known = find(d.conditions, 'Configured')\n return known == made(d)", True),
        ("def plan(d):\n known, now = find(d.conditions, 'C'), 1\n also = known\n return also != now", True),
        ("def plan(d):\n return carried(d) != d.other", True),
        ("def plan(d):\n return kinds.find(d.conditions, 'C') != 3", True),
        ("def plan(d, told: Condition | None):\n return told != 3", True),
        ("def plan(d, wanted):\n return (wanted.finding, d.x) == (1, 2)", True),
        ("def plan(d, wanted):\n return wanted in d.status.conditions", True),
        ("def made(d) -> Condition:\n pass\ndef plan(d):\n return made(d) == 3", True),
        ("def plan(d):\n known = find(d.conditions, 'Configured')\n return known is None", False),
        ("def plan(d):\n known = find(d.conditions, 'Configured')\n return known.status == 'True'", False),
        ("def plan(d, text):\n return text.find('x') == 3", False),
        ("def plan(d):\n return d.missing_pool != named(d)", False),
    ],
)
def test_a_comparison_of_whole_conditions_is_seen(code: str, is_seen: bool) -> None:
    assert bool(comparing(ast.parse(code))) == is_seen
