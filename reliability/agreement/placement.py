"""What random pods demand of their node beside room. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names as ours

if TYPE_CHECKING:
    from random import Random

Json = dict[str, Any]


def chance(draw: Random, share: float) -> bool:
    """Whether it falls into a share of all, 0 to 1."""
    return draw.random() < share


def demands(draw: Random) -> Json:
    """What a pod demands of its node beside room."""
    found: Json = {"terminationGracePeriodSeconds": 0}
    if chance(draw, 0.15):
        found["nodeSelector"] = draw.choice(
            ({"zone": "a"}, {"product": "H100"}, {"zone": "b", "product": "A100"}, {"zone": "nowhere"})
        )
    affinity: Json = {}
    if chance(draw, 0.25):
        terms = [_term(draw) for _ in range(draw.choice((1, 1, 2)))]
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    if chance(draw, 0.02):
        others = {"matchLabels": {"app": draw.choice(("web", "lonely", "nobody"))}}
        term = {"labelSelector": others, "topologyKey": draw.choice(("kubernetes.io/hostname", "zone"))}
        kind = draw.choice(("podAffinity", "podAntiAffinity"))
        affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if chance(draw, 0.02):
        selected = {"matchLabels": {"app": "web"}}
        found["topologySpreadConstraints"] = [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selected}
        ]
    if chance(draw, 0.01):
        found["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}]
    if chance(draw, 0.5):
        found["tolerations"] = [_toleration(draw) for _ in range(draw.choice((1, 2)))]
    return found | ({"affinity": affinity} if affinity else {})


def _term(draw: Random) -> Json:
    if chance(draw, 0.2):
        operator = draw.choice(("In", "In", "NotIn"))
        names = draw.choice(((1,), (1,), (1, 1), (1, 2)))
        fields = [
            {"key": "metadata.name", "operator": operator, "values": [f"node-{draw.randrange(70):02}"]} for _ in names
        ]
        return {"matchFields": fields}
    return {"matchExpressions": [_expression(draw) for _ in range(draw.choice((1, 1, 2)))]}


def _expression(draw: Random) -> Json:
    return draw.choice(
        (
            {"key": "zone", "operator": "In", "values": ["a", "b"]},
            {"key": "zone", "operator": "NotIn", "values": ["c"]},
            {"key": "product", "operator": "Exists"},
            {"key": "product", "operator": "DoesNotExist"},
            {"key": "cores", "operator": "Gt", "values": [draw.choice(("8", "16"))]},
            {"key": "cores", "operator": "Lt", "values": ["64"]},
            {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"node-{draw.randrange(60):02}"]},
        )
    )


def _toleration(draw: Random) -> Json:
    return draw.choice(
        (
            {"operator": "Exists"},
            {"key": "dedicated", "operator": "Equal", "value": "infer", "effect": "NoSchedule"},
            {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "dedicated", "value": "train"},
            {"key": "team", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "team", "operator": "Exists"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
            {"key": ours.DRIVER_TAINT, "operator": "Exists"},
        )
    )
