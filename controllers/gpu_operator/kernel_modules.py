"""Parameters of kernel modules, from the ConfigMap that an object of GPU Operator's names. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from controllers.api.gpudriver_rules import MODULES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.gpu_operator.remarks import Fields

_NAME = re.compile("[A-Za-z0-9_]+")


def kernel_modules(fields: Fields, at: str, config_maps: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """The parameters by module: each key is `<module>.conf`, with a `<name>=<value>` in each word."""
    path = f"{at}kernelModuleConfig.name"
    name = fields.text(path)
    if not name:
        return {}
    if name not in config_maps:
        reason = f"ConfigMap {name} could not be read: give it with -f, or write spec.kernelModules by hand"
        fields.remark("ToDo", path, reason)
        return {}
    made: dict[str, dict[str, str]] = {}
    for file, text in config_maps[name].items():
        module = file.removesuffix(".conf").replace("_", "-")
        words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
        if module not in MODULES or not file.endswith(".conf"):
            fields.remark("NoCounterpart", path, f"parameters are given to {', '.join(MODULES)}", file)
            continue
        for word in words:
            parameter, _, value = word.partition("=")
            if _NAME.fullmatch(parameter) and value:
                made.setdefault(module, {})[parameter] = value
            else:
                fields.remark("Refused", path, f"{file} has a word that is no <name>=<value>", word)
    return made
