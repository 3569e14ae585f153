"""Pods that use a node's cards, cut from the caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.domain.driver.users import users_of
from controllers.driver.caches import BY_NODE

if TYPE_CHECKING:
    from controllers.domain.driver.users import User
    from controllers.driver.caches import Caches


def users_on(caches: Caches, name: str) -> tuple[User, ...]:
    """The pods that use a node's cards, lowest priority first."""
    pods = caches.users.by(BY_NODE, name)
    claims = {key: claim for pod in pods for key in pod.claims if (claim := caches.claims.get(key)) is not None}
    return users_of(caches.devices.by(BY_NODE, name), pods, claims)
