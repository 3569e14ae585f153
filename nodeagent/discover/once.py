"""`python -m nodeagent.discover --once`: one look at a node for a person, without a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import yaml

from controllers.api import names
from nodeagent.discover.feature import report
from nodeagent.host.facts import cards

if TYPE_CHECKING:
    from controllers.api.system_facts import SystemFacts
    from nodeagent.discover.scan import Facts

COLUMNS = ("ADDRESS", "IDS", "CLASS", "NUMA", "DRIVER", "MEMORY", "MIG", "PRODUCT", "UUID")


def features(facts: Facts) -> dict[str, Any]:
    """The report that this one scan would make."""
    return report.alone(report.observe(facts.bus, facts.driver, facts.toolkit, facts.system), facts.boot_id)


def show(facts: Facts, form: str) -> str:
    """The report as `json`, as `yaml`, or for people as `text`; ends with a line break."""
    made = features(facts)
    if form == "json":
        return orjson.dumps(made, option=orjson.OPT_INDENT_2).decode() + "\n"
    if form == "yaml":
        return yaml.safe_dump(made, sort_keys=False, width=200)
    return _text(facts, made)


def _text(facts: Facts, made: dict[str, Any]) -> str:
    elements = [element["attributes"] for element in made["instances"][names.FEATURE_DEVICE]["elements"]]
    lines = _table([COLUMNS, *map(_row, elements)]) if elements else ["No cards."]
    told = made["attributes"]
    driver = told.get(names.FEATURE_DRIVER, {}).get("elements")
    if facts.driver is None:
        lines += ["", "Driver:  not loaded"]
    else:
        source = "NVML" if facts.driver.source == "nvml" else "/proc alone, since NVML does not answer"
        source += f"; {facts.why_incomplete}" if facts.why_incomplete else ""
        cuda = f", CUDA {driver['cuda_version']}" if driver and "cuda_version" in driver else ""
        root = f" in {facts.driver.root}" if facts.driver.root else ""
        lines += ["", f"Driver:  {(driver or {}).get('version', 'of unknown version')}{cuda}{root} ({source})"]
    lines.append(f"Toolkit: {_toolkit(told.get(names.FEATURE_TOOLKIT, {}).get('elements'))}")
    others = [
        f"{f.address} ({f.vendor}:{f.device} class {f.class_[:4]}{_virtual_function_note(f)})"
        for f in cards.others(facts.bus)
    ]
    lines += [f"No cards, though displays or accelerators: {', '.join(others)}"] if others else []
    unclear = sorted(facts.bus.unclear)
    lines += [f"Ids that cannot be read: {', '.join(unclear)}"] if unclear else []
    lines += [f"System:  {_system(facts.system.facts)}"] if facts.system is not None else []
    return "\n".join(lines) + "\n"


def _row(card: dict[str, str]) -> tuple[str, ...]:
    memory = f"{card['memory_mib']} MiB" if "memory_mib" in card else "-"
    mig = card.get("mig_instances") or card.get("mig_mode") or ("no" if card.get("mig_capable") == "false" else "-")
    rest = (card.get(key, "-") for key in ("product", "uuid"))
    ids = f"{card['vendor']}:{card['device']}"
    return (
        card["address"],
        ids,
        card["class"],
        card.get("numa_node", "-"),
        card.get("driver", "-"),
        memory,
        mig,
        *rest,
    )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _toolkit(told: dict[str, str] | None) -> str:
    if told is None:
        return "unknown: the host's files cannot be seen"
    if told.get("installed") != "true":
        return "not installed"
    handler = told.get("runtime_handler")
    return f"{told.get('version', 'of unknown version')}, " + (
        f"runtime handler {handler}" if handler else "no runtime handler in containerd's or CRI-O's configuration"
    )


def _system(told: SystemFacts) -> str:
    """What the node is, as far as it is known."""
    kernel = f"kernel {told.kernel}" + (f" (installed: {told.next_kernel})" if told.next_kernel else "")
    secure = {True: "Secure Boot", False: "no Secure Boot", None: "Secure Boot unknown"}[told.secure_boot]
    runtime = f"{told.runtime} {told.runtime_config}".strip()
    parts = [
        told.system or "of unknown name",
        kernel if told.kernel else "kernel unknown",
        secure,
        f"lockdown {told.lockdown or 'unknown'}",
        f"runtime {runtime or 'unknown'}",
    ]
    return ", ".join(parts)


def _virtual_function_note(function: Any) -> str:
    return f", virtual function of {function.physical_function}" if function.physical_function else ""
