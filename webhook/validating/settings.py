"""Validation of the module's ModuleConfig, by the model that its processes follow. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conversions import LATEST, retired
from controllers.api.settings import parse_settings
from webhook.decision.verdict import INVALID, Denied
from webhook.validating.result import ALLOWED, ReviewResult, warned

if TYPE_CHECKING:
    from controllers.api.settings import ModuleConfig


def validate(new: ModuleConfig) -> ReviewResult:
    """Validate the module's ModuleConfig; switching the module off is never refused."""
    if new.name != names.MODULE or new.spec.enabled is False:
        return ALLOWED
    try:
        parse_settings(new.spec.settings, new.spec.version)
    except ValueError as error:
        sentence = f"spec.settings of ModuleConfig {names.MODULE}: {error}. The settings that are in force stay."
        return ReviewResult(Denied(INVALID, sentence))
    return warned(*(_ignored(path) for path in retired(new.spec.settings, new.spec.version)))


def _ignored(path: str) -> str:
    setting = f"spec.settings.{path} of ModuleConfig {names.MODULE}"
    return f"{setting} is no setting any more and changes nothing: take it out, and set spec.version to {LATEST}."
