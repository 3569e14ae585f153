"""Descriptions of the contract's fields: the docstrings below them, read from the source when a schema is generated.

Pydantic can do this for each record as it is declared. Then every process would read and parse the source of every
record at its start, an eighth of what its imports cost, for descriptions that `make generate` alone asks for.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema

from controllers.api.record import json_name

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema


def docstrings(cls: type[Any]) -> dict[str, str]:
    """The docstring below each field of a record that has one, by the field's name; inherited fields too."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        match ast.parse(textwrap.dedent(inspect.getsource(base))).body:
            case [ast.ClassDef(body=body)]:
                found |= {name: text for name, text in map(_field, body, body[1:]) if text}
    return found


def _field(statement: ast.stmt, below: ast.stmt) -> tuple[str, str]:
    """A field's name and docstring; both are empty for other statements."""
    match statement, below:
        case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
            return name, inspect.cleandoc(text)
    return "", ""


class Described(GenerateJsonSchema):
    """Pydantic's JSON schema of a record with these descriptions; one that a field was given itself stays."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """One record's schema."""
        made = super().dataclass_schema(schema)
        properties = self.resolve_ref_schema(made).get("properties", {})
        for name, text in docstrings(schema["cls"]).items():
            properties.get(json_name(name), {}).setdefault("description", text)
        return made
