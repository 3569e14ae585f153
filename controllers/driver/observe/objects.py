"""The objects that are built for a target: the check pod of a node, DaemonSet and ConfigMap of a variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.driver.pods import build, checks
from controllers.driver.pods.inputs import Files
from controllers.driver.views import Named, Objects

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriver
    from controllers.domain.driver.choice import Install
    from controllers.driver.observe.sources import Sources


def check_of(sources: Sources, name: str, driver: GPUDriver, target: Install, *, clearing: bool = False) -> Named:
    """The pod that looks at a node for `target`, before anything else or, `clearing`, before its driver goes."""
    body = checks.check_pod(
        driver,
        name,
        target,
        sources.agent_image,
        files=_files(sources, driver),
        cluster_proxy=sources.cluster_proxy,
    )
    return Named(checks.check_name(name, target, clearing=clearing), body)


def look_of(sources: Sources, name: str, driver: GPUDriver) -> Named:
    """The pod that looks at a node before a person has it."""
    return Named(checks.look_name(name), checks.look_pod(driver, name, sources.agent_image))


def objects_of(sources: Sources, driver: GPUDriver, target: Install, *, all_of_them: bool = False) -> Objects:
    """A variant's objects as they are built, those that are not there or `all_of_them`."""
    if target.former is not None:
        return Objects()  # what was built by a spec that is gone cannot be built again
    key = f"{names.NAMESPACE}/{target.variant.object_name}"
    daemonset = configmap = None
    if all_of_them or sources.caches.daemonsets.get(key) is None:
        daemonset = build.daemonset(
            driver,
            target,
            sources.agent_image,
            files=_files(sources, driver),
            cluster_proxy=sources.cluster_proxy,
            reboot_sentinel=sources.settings.reboot_sentinel,
        )
    if all_of_them or sources.caches.configmaps.get(key) is None:
        configmap = build.configmap(driver, target, files=_files(sources, driver))
    return Objects(daemonset, configmap)


def _files(sources: Sources, driver: GPUDriver) -> Files:
    contents, named = sources.decisions.contents(driver), driver.spec.build
    return Files(contents.get(named.repositories.config_map, {}), contents.get(named.certificates.config_map, {}))
