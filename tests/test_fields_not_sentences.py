"""Planners read fields, not what was said to people: no decision hangs on the reason or the message of a condition.

A reason or a message may be passed on: put into a sentence, or handed to what makes one. It may not be compared, looked
up, cut or branched on. The one enumeration of the contract that is named so, `pools.pending[].reason`, is asked by what
its record tells of it (`PendingCard.is_declined`, `InventoryPools.undecided`).
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.test_architecture import ROOT, parsed

FOLDERS = (
    "controllers/bootstrap",
    "controllers/components",
    "controllers/domain",
    "controllers/driver",
    "controllers/gpupool",
    "controllers/install",
    "controllers/inventory",
    "nodeagent",
    "webhook",
)
PRINTERS = (
    "controllers/inventory/coverage",
    "controllers/gpupool/collectors.py",
    "controllers/gpupool/metrics.py",
    "controllers/bootstrap/metrics/nodes.py",
    "controllers/driver/drivers/conditions.py",
)
"""Programs and modules that only tell people: they compare nothing with what was said before."""
READERS = (
    "controllers/driver/node/look.py",
    "controllers/driver/node/pod.py",
    "controllers/driver/node/validators.py",
    "controllers/driver/node/waiting.py",
    "controllers/inventory/loops/rule.py",
)
"""Modules that make fields of what kubelet, the API server and programs on a node say, of which there is no field."""
MAKERS = frozenset(
    {
        "CandidatePool",
        "CardFault",
        "DriverNode",
        "EmitEvent",
        "Entry",
        "Evidence",
        "Facts",
        "Finding",
        "LastDriverWork",
        "MpsDaemon",
        "NodeProgress",
        "begin",
        "check_word",
        "event",
        "move",
        "info",
        "reason_of",
        "replace",
        "step",
    }
)
"""Calls by which a reason or a sentence is passed on."""
SAID = ("reason", "message")
LEFT: dict[str, int] = {
    "controllers/install/work.py": 3,
    "nodeagent/driver/decide.py": 1,
    "nodeagent/driver/message.py": 2,
    "nodeagent/driver/prepare.py": 2,
    "nodeagent/mig/scanner.py": 1,
    "nodeagent/mps/supervisor.py": 2,
    "nodeagent/validate/checks/report.py": 2,
}
"""Places that still decide by a word, by file: no new one may come, and one that goes is taken out here.

None of these is a condition's: they are words of a record that the same program, or its own child, has just made.
"""


def decides(tree: ast.AST) -> list[int]:
    """The lines where a reason or a message is read for anything but to be passed on."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def is_passed_on(node: ast.AST) -> bool:
        below, above, is_told = node, parents.get(node), False
        while above is not None and not isinstance(above, ast.stmt):
            if isinstance(above, ast.Compare) or (not is_told and isinstance(above, (ast.BoolOp, ast.Subscript))):
                return False
            if not is_told and isinstance(above, ast.Call):
                called = getattr(above.func, "id", None) or getattr(above.func, "attr", "")
                if below is above.func or called not in MAKERS:
                    return False
                is_told = True
            is_told = is_told or isinstance(above, (ast.FormattedValue, ast.Dict))
            below, above = above, parents.get(above)
        return is_told

    read = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in SAID)
    decided = [node.lineno for node in read if isinstance(node.ctx, ast.Load) and not is_passed_on(node)]
    return decided + [node.lineno for node in ast.walk(tree) if isinstance(node, ast.MatchClass) and is_matched(node)]


def is_matched(pattern: ast.MatchClass) -> bool:
    """Whether a pattern looks at a reason or a message: by name, or at its place in a condition."""
    kind = getattr(pattern.cls, "id", None) or getattr(pattern.cls, "attr", "")
    return any(name in SAID for name in pattern.kwd_attrs) or (
        kind in ("Condition", "Finding") and bool(pattern.patterns)
    )


def planners() -> list[Path]:
    """The modules that decide; `__main__` only wires them."""
    found = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    decide = (path for path in found if path.name != "__main__.py")
    return [path for path in decide if not str(path.relative_to(ROOT)).startswith((*PRINTERS, *READERS))]


def test_no_planner_decides_by_what_was_said() -> None:
    found = {str(path.relative_to(ROOT)): lines for path in planners() if (lines := decides(parsed(path)))}
    new = {path: lines for path, lines in found.items() if len(lines) > LEFT.get(path, 0)}
    gone = {path: number for path, number in LEFT.items() if number > len(found.get(path, ()))}

    assert not new, f"lines that decide by a reason or a message, where a field of the status should tell: {new}"
    assert not gone, f"fewer places are left than LEFT says: {gone}"


@pytest.mark.parametrize(
    ("code", "is_decision"),
    [
        ("if told.reason == 'Held': pass", True),
        ("x = told.message", True),
        ("x = told.reason.removesuffix('Held')", True),
        ("x = told.reason.replace('Held', '')", True),
        ("x = TABLE[told.reason]", True),
        ("x = TABLE.get(told.reason)", True),
        ("if f'{told.reason}' == 'Held': pass", True),
        ("x = told.message or 'none'", True),
        ("match told:\n    case Condition(status='True', reason='Held'): pass", True),
        ("match told:\n    case Condition('Faulted', 'True', 'Held'): pass", True),
        ("match told:\n    case meta.Finding(message=said): pass", True),
        ("match told:\n    case Condition(status='True'): pass", False),
        ("x = f'{told.reason}: {told.message}'", False),
        ("x = Finding(True, told.reason, f'so {told.message}')", False),
        ("EmitEvent(about, 'Normal', EVENT, message=told.message)", False),
        ("x = replace(work, reason=told.reason)", False),
        ("told.reason = 'Held'", False),
    ],
)
def test_a_decision_is_told_from_what_is_passed_on(code: str, is_decision: bool) -> None:
    assert bool(decides(ast.parse(code))) == is_decision
