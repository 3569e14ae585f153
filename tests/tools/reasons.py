"""Finds the reasons that the code can give a condition, in its syntax trees.

What stands where a condition, a finding or a validator's check gets its reason is resolved to words: through
constants, parameters, assignments and returned tuples. What cannot be resolved is an error until `COMPUTED` says
what it can be.
"""

from __future__ import annotations

import ast
import importlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from controllers.api.gpunodeinventory import PendingReason
from controllers.bootstrap.cards import VALIDATION_FAILED
from controllers.bootstrap.health.signs import FAULTS
from controllers.bootstrap.phases import PHASES
from controllers.domain.slots import BLOCKING
from nodeagent.validate.nvml import _REASONS as NVML_REASONS
from tests.test_architecture import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path
    for path in sorted([*(ROOT / "controllers").rglob("*.py"), *(ROOT / "nodeagent" / "validate").glob("*.py")])
    # What makes conditions out of findings, and the findings of a report that is no condition.
    if "coverage" not in path.parts and path != ROOT / "controllers" / "api" / "conditions.py"
]
REASON_AT = {"Finding": 1, "Ineligible": 0, "failed": 1, "unknown": 1, "condition": None, "replace": None}
"""Calls that are given a reason, with its place; None where only by keyword."""
NVML_CHOICE = (
    "next(((reason, do) for word, reason, do in _REASONS if word in text), "
    "('NVMLFailed', 'run nvidia-smi on the node'))"
)
COMPUTED = {
    ("controllers/bootstrap/troubles.py", "phase.word"): {phase.word for phase in PHASES},
    ("controllers/bootstrap/health/judge.py", "reason"): {*FAULTS, VALIDATION_FAILED},
    ("controllers/gpupool/pending.py", "min(reasons)"): set(get_args(PendingReason)) - {"Declined"},
    ("controllers/domain/eligibility/checks.py", "kind"): set(BLOCKING),
    ("nodeagent/validate/nvml.py", NVML_CHOICE): {*(reason for _, reason, _ in NVML_REASONS), "NVMLFailed"},
}
"""Expressions that are no plain words, as they are written, and what they can be."""


class UnresolvedError(Exception):
    """A reason of which the test does not know what it can be."""


class Source:
    """One file."""

    def __init__(self, path: Path, root: Path = ROOT) -> None:
        self.path = path.relative_to(root)
        self.tree = parsed(path)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def namespace(self) -> Any:
        parts = self.path.with_suffix("").parts
        return importlib.import_module(".".join(part for part in parts if part != "__init__"))

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                yield name, node

    def reasons(self) -> set[str]:
        """Every word that is given as a reason."""
        found: set[str] = set()
        for name, call in self.calls():
            if name not in REASON_AT:
                continue
            at = REASON_AT[name]
            given = next((word.value for word in call.keywords if word.arg == "reason"), None)
            if given is None and at is not None and len(call.args) > at:
                given = call.args[at]
            if given is not None:
                found |= self.words(given)
        return found

    def words(self, node: ast.expr) -> set[str]:  # noqa: C901, PLR0911 - a list of forms
        """What an expression can be; nothing where it is another finding's, which was counted where it was made."""
        text = ast.unparse(node)
        if (known := COMPUTED.get((str(self.path), text))) is not None:
            return set(known)
        match node:
            case ast.Constant(value=str(word)):
                return {word}
            case ast.Constant(value=None):
                return set()
            case ast.Attribute(attr="reason") | ast.Call(func=ast.Attribute(value=ast.Attribute(attr="reason"))):
                return set()
            case ast.IfExp(body=one, orelse=other):
                return self.words(one) | self.words(other)
            case ast.BoolOp(values=values):
                return set().union(*map(self.words, values))
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self.joined([left, right])
            case ast.JoinedStr(values=values):
                return self.joined(values)
            case ast.FormattedValue(value=value):
                return self.words(value)
            case ast.Name(id=name):
                return self.named(node, name)
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                return self.constant(getattr(getattr(self.namespace(), module, None), name, None), text)
        raise UnresolvedError(f"{self.path}: what can the reason {text!r} be? say it in COMPUTED")

    def joined(self, parts: Sequence[ast.expr]) -> set[str]:
        found = [self.words(part) for part in parts]
        if not all(found):
            raise UnresolvedError(f"{self.path}: {' + '.join(map(ast.unparse, parts))} joins what is not known")
        return {"".join(words) for words in itertools.product(*found)}

    def constant(self, value: object, text: str) -> set[str]:
        if not isinstance(value, str):
            raise UnresolvedError(f"{self.path}: {text} is {value!r}, no word")
        return {value}

    def named(self, node: ast.AST, name: str) -> set[str]:
        """A name: assigned in a function around it, a parameter of one, or a constant of the module."""
        around: ast.AST | None = node
        while (around := self.parents.get(around)) is not None:  # type: ignore[arg-type]
            if not isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if assigned := list(self.assigned(around, name)):
                return set().union(*assigned)
            parameters = [arg.arg for arg in (*around.args.posonlyargs, *around.args.args)]
            if name in parameters or name in [arg.arg for arg in around.args.kwonlyargs]:
                return self.given(around, name, parameters)
        return self.constant(getattr(self.namespace(), name, None), name)

    def assigned(self, function: ast.AST, name: str) -> Iterator[set[str]]:
        for node in ast.walk(function):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) or node.value is None:
                continue
            for target in targets:
                if isinstance(target, ast.Name) and target.id == name:
                    yield self.words(node.value)
                elif isinstance(target, ast.Tuple):
                    for at, element in enumerate(target.elts):
                        if isinstance(element, ast.Name) and element.id == name:
                            yield self.part(node.value, at)

    def part(self, value: ast.expr, at: int) -> set[str]:  # noqa: C901, PLR0911 - a list of forms
        """A part of a tuple: written out, named, or returned by a function of this file."""
        text = ast.unparse(value)
        if (known := COMPUTED.get((str(self.path), text))) is not None:
            return set(known)
        match value:
            case ast.Constant(value=None):
                return set()
            case ast.Tuple(elts=elements):
                return self.words(elements[at])
            case ast.IfExp(body=one, orelse=other):
                return self.part(one, at) | self.part(other, at)
            case ast.BoolOp(values=values):
                return set().union(*(self.part(one, at) for one in values))
            case ast.Name(id=name):
                function: ast.AST | None = value
                while function is not None and not isinstance(function, ast.FunctionDef):
                    function = self.parents.get(function)
                given = self.values(function, name) if function else []
                if given:
                    return set().union(*(self.part(one, at) for one in given))
            case ast.Call(func=ast.Name(id=name)):
                functions = [f for f in ast.walk(self.tree) if isinstance(f, ast.FunctionDef) and f.name == name]
                returned = [r.value for f in functions for r in ast.walk(f) if isinstance(r, ast.Return) and r.value]
                if returned:
                    return set().union(*(self.part(one, at) for one in returned))
        raise UnresolvedError(f"{self.path}: what can part {at} of {text!r} be? say it in COMPUTED")

    def values(self, function: ast.AST, name: str) -> list[ast.expr]:
        """What a function assigns to a name, whole."""
        return [
            node.value
            for node in ast.walk(function)
            if isinstance(node, (ast.Assign, ast.NamedExpr))
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name) and target.id == name
        ]

    def given(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, parameters: list[str]) -> set[str]:
        """What callers in this file give for a parameter."""
        found: set[str] = set()
        for called, call in self.calls():
            if called != function.name:
                continue
            by_name = [word.value for word in call.keywords if word.arg == name]
            if by_name:
                found |= self.words(by_name[0])
            elif name in parameters and len(call.args) > parameters.index(name):
                found |= self.words(call.args[parameters.index(name)])
        if found:
            return found
        if self.path.parts[0] == "nodeagent" and function.name in REASON_AT:
            return set()  # `failed` and `unknown` themselves: their callers were asked
        raise UnresolvedError(f"{self.path}: nobody in it gives {function.name} a {name}")
