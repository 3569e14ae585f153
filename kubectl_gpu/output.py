"""`-o`: objects as they are in the API, for programs; tables for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from controllers.explain.table import rendered
from kubectl_gpu.terminal import is_ascii, paint, print_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.explain.lists import Row
    from controllers.explain.table import Column

TABLES = ("table", "wide")
FORMATS = (*TABLES, "json", "yaml", "name")


def structured(value: Any, form: str) -> None:
    """Write a value as JSON or YAML."""
    if form == "json" and is_ascii():
        print_lines([json.dumps(value, indent=2)])  # escapes what the stream cannot take; orjson never does
        return
    if form == "json":
        print_lines([orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()])
        return
    import yaml

    print_lines([yaml.safe_dump(value, sort_keys=False, allow_unicode=not is_ascii(), width=120).rstrip("\n")])


def objects(raws: Sequence[dict[str, Any]], form: str) -> None:
    """Write objects as a List, as `kubectl get -o` does, or their names."""
    if form == "name":
        print_lines(
            f"{raw['kind'].lower()}.{raw['apiVersion'].partition('/')[0]}/{raw['metadata']['name']}" for raw in raws
        )
        return
    bare = [{**raw, "metadata": {k: v for k, v in raw["metadata"].items() if k != "managedFields"}} for raw in raws]
    structured({"apiVersion": "v1", "kind": "List", "items": bare}, form)


def table(columns: Sequence[Column], rows: Sequence[Row], form: str, *, headers: bool) -> None:
    """Write a table."""
    print_lines(rendered(columns, rows, wide=form == "wide", headers=headers, paint=paint))
