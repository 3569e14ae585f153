"""Objects of Kubernetes as files hold them: YAML or JSON, one after another or in Lists. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from controllers.explain.faults import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def documents(text: str, source: str) -> list[dict[str, Any]]:
    """The documents of a text, and in place of a List what it holds; raises UsageError.

    `source`: the file's name. Nothing is said of what a document has to have: values of a chart have no kind.
    """
    try:
        return [*_flat(yaml.safe_load_all(text), source)]
    except yaml.YAMLError as error:
        # Its own words quote the line, which may have a password.
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise UsageError(f"{source} is no YAML{where}.") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{source} holds no objects of Kubernetes.") from None


def _flat(found: Iterable[Any], source: str) -> Iterator[dict[str, Any]]:
    for document in found:
        if document is None:
            continue
        if not isinstance(document, dict):
            raise UsageError(
                f"{source} holds no objects: it has a value of type {type(document).__name__} where one is expected."
            )
        if not str(document.get("kind", "")).endswith("List"):
            yield document
        elif isinstance(items := document.get("items") or [], list):
            yield from _flat(items, source)
        else:
            raise UsageError(f"{source} holds no objects: items of its List are of type {type(items).__name__}.")
