"""Parts of Grafana dashboards as plain JSON, by Deckhouse's conventions. Pure.

Every panel asks the data source of variable `ds_prometheus`; rates go over Grafana's own `$__rate_interval`; no
legacy panel types and no alerts of Grafana's own.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]
SOURCE: Final = {"type": "prometheus", "uid": "$ds_prometheus"}
WIDTH: Final = 24
"""Units of Grafana's grid in a row."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; `queries` are legends with their expressions."""

    title: str
    queries: dict[str, str]
    kind: str = "timeseries"
    unit: str = "short"
    about: str = ""
    width: int = 8
    height: int = 7
    options: Json = field(default_factory=dict)
    custom: Json = field(default_factory=dict)
    mappings: tuple[Json, ...] = ()
    bad_above: float | None = None
    """A value above it is shown red."""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


def stat(title: str, expr: str, *, unit: str = "short", about: str = "", bad_above: float | None = None) -> Panel:
    """One number."""
    options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"}
    return Panel(title, {"": expr}, "stat", unit, about, width=4, height=4, options=options, bad_above=bad_above)


def lines(title: str, queries: dict[str, str], *, unit: str = "short", about: str = "", width: int = 8) -> Panel:
    """Lines over time."""
    options = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    return Panel(title, queries, "timeseries", unit, about, width=width, options=options)


def stacked(title: str, queries: dict[str, str], *, unit: str = "short", about: str = "", width: int = 8) -> Panel:
    """Areas over time, one upon the other."""
    made = lines(title, queries, unit=unit, about=about, width=width)
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 40}
    return Panel(title, queries, made.kind, unit, about, width=width, options=made.options, custom=custom)


def table(
    title: str,
    expr: str,
    *,
    hide: tuple[str, ...] = (),
    about: str = "",
    width: int = 12,
    said: dict[str, str] | None = None,
) -> Panel:
    """The labels and value of each series now; `said` are words for values."""
    words = ({"type": "value", "options": {key: {"text": text} for key, text in said.items()}},) if said else ()
    options = {"showHeader": True, "hidden": ["Time", *hide]}
    return Panel(title, {"": expr}, "table", "none", about, width=width, options=options, mappings=words)


def variable(name: str, label: str, query: str) -> Json:
    """A variable whose values are those of a label; all by default."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def dashboard(uid: str, title: str, rows: tuple[Row, ...], *variables: Json, about: str = "") -> Json:
    """The whole document."""
    source = {
        "name": "ds_prometheus",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "current": {"selected": False, "text": "default", "value": "default"},
    }
    return {
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["gpu", "gpu-control-plane"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [source, *variables]},
        "annotations": {"list": []},
        "links": [
            {"type": "dashboards", "title": "GPU", "tags": ["gpu-control-plane"], "asDropdown": True, "keepTime": True}
        ],
        "panels": _placed(rows),
    }


def _placed(rows: tuple[Row, ...]) -> list[Json]:
    """Panels from left to right and from top to bottom."""
    made: list[Json] = []
    y = 0
    for row in rows:
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        made.append(
            {"id": len(made) + 1, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        )
        y, x, tallest = y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y, tallest = 0, y + tallest, 0
            place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            made.append({"id": len(made) + 1, "gridPos": place, **_panel(panel)})
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return made


def _panel(panel: Panel) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.bad_above is not None:
        steps.append({"color": "red", "value": panel.bad_above})
    defaults: Json = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": steps},
        "mappings": list(panel.mappings),
        "custom": panel.custom,
    }
    made: Json = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "targets": [
            _target(panel, legend, expr, letter)
            for (legend, expr), letter in zip(panel.queries.items(), string.ascii_uppercase, strict=False)
        ],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {key: value for key, value in panel.options.items() if key != "hidden"},
    }
    if panel.kind == "table":
        excluded = dict.fromkeys(panel.options["hidden"], True)
        made["transformations"] = [{"id": "organize", "options": {"excludeByName": excluded}}]
    return made


def _target(panel: Panel, legend: str, expr: str, letter: str) -> Json:
    now = panel.kind in ("stat", "table")
    return {
        "datasource": SOURCE,
        "refId": letter,
        "expr": expr,
        "legendFormat": legend or "__auto",
        "instant": panel.kind == "table",
        "range": panel.kind != "table",
        "format": "table" if panel.kind == "table" else "time_series",
    } | ({"intervalFactor": 1} if not now else {})
