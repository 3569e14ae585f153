"""What the administrator may set for one component of a node's preparation: its image, arguments and resources.

What cannot work is refused here, in a sentence, and not by the kubelet of each node.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from controllers.api.components import OWN_ENV
from controllers.api.image_reference import DIGEST, PATH, TAG, split_reference
from controllers.api.quantity import Quantities, amount
from controllers.api.record import Atomic, record

_REPOSITORY = rf"^{PATH}$"
_IMAGE = rf"^{PATH}(:{TAG})?(@{DIGEST})?$"
_VERSION = rf"^({DIGEST}|{TAG}(@{DIGEST})?)$"
_ENV_NAME = r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"


def _text(pattern: str, expected: str) -> BeforeValidator:
    """A text of that form; the message says what is expected."""

    def check(value: object) -> object:
        if isinstance(value, str) and not re.fullmatch(pattern, value):
            msg = f"{value!r} is not {expected}"
            raise ValueError(msg)
        return value

    return BeforeValidator(check)


def _distinct(found: list[EnvironmentVariable]) -> list[EnvironmentVariable]:
    seen: set[str] = set()
    for variable in found:
        if variable.name in seen:
            msg = f"{variable.name} is given twice; which one is meant?"
            raise ValueError(msg)
        seen.add(variable.name)
    return found


def _not_ours(name: str) -> str:
    if name in OWN_ENV:
        msg = f"{name} is the module's own: its mounts, probes or policies depend on it"
        raise ValueError(msg)
    return name


@record
class EnvironmentVariable:
    """One variable of a component's environment."""

    name: Annotated[
        str,
        _text(_ENV_NAME, "the name of an environment variable"),
        AfterValidator(_not_ours),
        Field(json_schema_extra={"pattern": _ENV_NAME}),
    ]
    """Its name."""
    value: str = ""
    """Its value."""


@record
class ComponentResources:
    """What a component's container asks for, and what it gets at most."""

    requests: Quantities = Field(default_factory=dict)
    """What is set aside on the node: quantities of `cpu`, `memory`, `ephemeral-storage`."""
    limits: Quantities = Field(default_factory=dict)
    """What it gets at most, in the same words."""

    @model_validator(mode="after")
    def _fits(self) -> ComponentResources:
        for name, asked in self.requests.items():
            if name in self.limits and amount(asked) > amount(self.limits[name]):
                msg = f"requests.{name} {asked} is above limits.{name} {self.limits[name]}"
                raise ValueError(msg)
        return self


@record
class ComponentSettings:
    """One component of the node's preparation. Its image is `<repository>/<image>:<version>`.

    What is left out of the three is the module's own. An `image` with a path stands without the module's repository;
    one with a tag or a digest is the whole reference, and `repository` or `version` beside it are refused: whichever
    of the two versions won, somebody would believe the other.
    """

    enabled: bool = True
    """Whether the module runs this component."""
    repository: Annotated[
        str | None,
        _text(_REPOSITORY, "a repository, such as registry.example.com/nvidia"),
        Field(json_schema_extra={"pattern": _REPOSITORY}),
    ] = None
    """Where the image lies, such as `registry.example.com/nvidia`; the module's default when left out."""
    image: Annotated[
        str | None,
        _text(_IMAGE, "an image, such as dcgm or registry.example.com/nvidia/dcgm:4.6.0"),
        Field(json_schema_extra={"pattern": _IMAGE}),
    ] = None
    """Name in the repository, or a path with its host; with a tag or digest the whole reference, and nothing beside."""
    version: Annotated[
        str | None,
        _text(_VERSION, "a version: write a tag, such as v1.20.0, or a digest (sha256: and 64 hexadecimal digits)"),
        Field(json_schema_extra={"pattern": _VERSION}),
    ] = None
    """The image's tag, or its digest (`sha256:…`); the module's default when left out."""
    args: Annotated[list[str], Atomic] = Field(default_factory=list)
    """Arguments that follow the module's own, by which the component is wired to the others."""
    env: Annotated[list[EnvironmentVariable], Atomic, AfterValidator(_distinct)] = Field(default_factory=list)
    """Variables beside the module's; the same name replaces the module's, but for those its mounts and probes use."""
    resources: ComponentResources | None = None
    """Requests and limits, as a whole in place of the module's."""

    @model_validator(mode="after")
    def _one_version(self) -> ComponentSettings:
        if self.image is None or split_reference(self.image)[1] is None:
            return self
        beside = [name for name in ("repository", "version") if getattr(self, name) is not None]
        if beside:
            msg = (
                f"image {self.image} is a whole reference already; leave out {' and '.join(beside)},"
                " or write the image without its tag or digest"
            )
            raise ValueError(msg)
        return self


@record
class ToolkitSettings(ComponentSettings):
    """The container toolkit, and how far the module goes with the node's container runtime."""

    runtime_config: Literal["Auto", "Never"] = "Auto"
    """Whether the module adds NVIDIA's handlers to the runtime's configuration (Auto, the least change), or you do."""
    runtime_restarts: Annotated[int, Field(ge=1, le=1000)] = 5
    """Nodes at most whose container runtime takes up a changed configuration at once; one that failed counts too."""
