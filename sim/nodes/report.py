"""NodeFeatures as the simulation caches them: who wrote one, a digest, the few facts used, and all of it packed.

The objects are 10-100 kB, and 500 nodes have 1,000 of them. Whether one is up to date is told
by the digest of its features, which compares what is really there, whoever wrote it. Any part
of them may be what a rule asks for, which may change at any time: so the specs are kept whole,
compressed to a fifth of what they are as JSON.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from pydantic import BeforeValidator, Field

from controllers.api import names as api
from controllers.api.meta import KubeObject, ObjectMeta
from controllers.api.nodefeature import NodeFeature, NodeFeatureSpec
from controllers.api.record import adapter, record
from sim.nodes import names


@record
class Facts:
    """What is kept of a NodeFeature's spec."""

    digest: str = ""
    packed: bytes = b""
    """The spec as JSON, compressed; `unpacked` reads it."""
    cards: tuple[tuple[tuple[str, str], ...], ...] = ()
    """Attributes of each element of `gpu.device`."""
    driver: str = ""
    """The version of `gpu.driver`; something of it where it has none, nothing where it is not there."""

    @property
    def unpacked(self) -> bytes:
        """The spec as JSON."""
        return zlib.decompress(self.packed) if self.packed else b"{}"


def digest(features: Mapping[str, Any]) -> str:
    """The same for the same features; what the validators add to our agent's report does not count."""
    theirs = (api.FEATURE_VALIDATION, api.FEATURE_NVML)
    forms = {
        form: {name: feature for name, feature in (features.get(form) or {}).items() if name not in theirs}
        for form in ("attributes", "flags", "instances")
    }
    return hashlib.sha256(orjson.dumps(forms, option=orjson.OPT_SORT_KEYS)).hexdigest()


def facts(spec: Any) -> Any:
    """Reduce a spec; what is not there counts as empty, as in NFD."""
    if isinstance(spec, Facts):
        return spec
    features = (spec or {}).get("features") or {}

    def elements(form: str, name: str) -> Any:
        return ((features.get(form) or {}).get(name) or {}).get("elements") or {}

    driver = elements("attributes", api.FEATURE_DRIVER)
    kept = {"features": features, "labels": (spec or {}).get("labels") or {}}
    return Facts(
        digest=digest(features),
        packed=zlib.compress(orjson.dumps(kept, option=orjson.OPT_SORT_KEYS), level=1),
        cards=tuple(
            tuple(sorted((element.get("attributes") or {}).items()))
            for element in elements("instances", api.FEATURE_DEVICE)
        ),
        driver=driver.get("version") or next(iter(driver), ""),
    )


def _managers(fields: Any) -> Any:
    return tuple(sorted({entry.get("manager", "") if isinstance(entry, dict) else entry for entry in fields or ()}))


@record
class ReportMeta(ObjectMeta):
    """Metadata with the names of those who wrote the object."""

    managed_fields: Annotated[tuple[str, ...], BeforeValidator(_managers)] = ()


@record
class Report(KubeObject):
    """One NodeFeature."""

    metadata: ReportMeta = Field(default_factory=ReportMeta)
    spec: Annotated[Facts, BeforeValidator(facts)] = Field(default_factory=Facts)

    @property
    def node(self) -> str:
        """The node that it speaks of."""
        return self.metadata.labels.get(api.NFD_NODE_NAME, "")

    @property
    def feature(self) -> NodeFeature:
        """The object as the agents know it."""
        return NodeFeature(metadata=self.metadata, spec=adapter(NodeFeatureSpec).validate_json(self.spec.unpacked))

    @property
    def by_agent(self) -> bool:
        """Whether it is the node agent's own `gpu-<node>`, or one made by hand in its place."""
        meta = self.metadata
        return meta.namespace == api.NAMESPACE and meta.name == api.agent_feature(self.node)

    @property
    def by_hand(self) -> bool:
        """Whether anybody but NFD and our agents wrote in it: then it is left alone."""
        return not all(
            manager in (names.NFD_WORKER, names.NFD_MASTER) or manager.startswith(api.AGENTS)
            for manager in self.metadata.managed_fields
        )
