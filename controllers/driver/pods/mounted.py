"""What a variant's pods read from outside: its ConfigMap, Secrets of people, and the host's folders. Pure.

The ConfigMap has a copy of the package repositories and certificates that the driver names. So a variant keeps what it
was made with when people change theirs: that is another revision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.components.podspec import mount
from controllers.driver.pods import systems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controllers.components.podspec import Json
    from controllers.driver.pods.inputs import Inputs

DRIVERS: Final = "/drivers"
"""Where NVIDIA's program looks for parameters of modules and for a licence."""
LICENCE: Final = {"gridd.conf": "gridd.conf", "client_configuration_token.tok": "ClientConfigToken"}
"""Keys of the Secret, and where below `DRIVERS` each lies: a file, or the folder for one of its name."""
_CONFIG, _LICENCE = "config", "licence"


def data(given: Inputs) -> dict[str, str]:
    """The data of the variant's ConfigMap; empty where it needs none."""
    return {key: text for key, _, text in _entries(given)}


def volumes(given: Inputs) -> list[Json]:
    """Volumes for what `mounts` and `build_mounts` name."""
    made: list[Json] = []
    if data(given):
        made.append({"name": _CONFIG, "configMap": {"name": given.choice.variant.object_name}})
    if secret := given.driver.spec.licensing.secret_name:
        items = [{"key": key, "path": key} for key in LICENCE]
        made.append({"name": _LICENCE, "secret": {"secretName": secret, "items": items}})
    hosts = ((f"subscription-{number}", *rest) for number, (_, *rest) in enumerate(_subscription(given)))
    return made + [{"name": name, "hostPath": {"path": path, "type": kind}} for name, path, kind in hosts]


def build_volumes(given: Inputs) -> list[Json]:
    """Volumes for what `build_mounts` names alone."""
    return [one for one in volumes(given) if one["name"] != _LICENCE and (one["name"] != _CONFIG or _build(given))]


def mounts(given: Inputs) -> list[Json]:
    """What the driver's container mounts of it."""
    made = [_file(key, path) for key, path, _ in _parameters(given)]
    if given.driver.spec.licensing.secret_name:
        paths = {
            key: f"{DRIVERS}/{place}" if place == key else f"{DRIVERS}/{place}/{key}" for key, place in LICENCE.items()
        }
        made += [mount(_LICENCE, path, read_only=True) | {"subPath": key} for key, path in paths.items()]
    return made + build_mounts(given)


def build_mounts(given: Inputs) -> list[Json]:
    """What a container mounts to have the packages that the driver's will need."""
    made = [_file(key, path) for key, path, _ in _build(given)]
    return made + [
        mount(f"subscription-{number}", path, read_only=True) for number, (path, *_) in enumerate(_subscription(given))
    ]


def _entries(given: Inputs) -> Iterator[tuple[str, str, str]]:
    """Each file of the ConfigMap: its key, its path in the container and its text."""
    yield from _parameters(given)
    yield from _build(given)


def _parameters(given: Inputs) -> list[tuple[str, str, str]]:
    """One parameter a line, as NVIDIA's program reads them."""
    modules = sorted(given.driver.spec.kernel_modules.items())
    return [
        (f"{module}.conf", f"{DRIVERS}/{module}.conf", "".join(f"{key}={values[key]}\n" for key in sorted(values)))
        for module, values in modules
        if values
    ]


def _build(given: Inputs) -> list[tuple[str, str, str]]:
    where = systems.folders(given.choice.variant.system)
    if where is None or not given.compiled:
        return []
    return [
        *_copied("repository", where.repositories, given.files.repositories),
        *_copied("certificate", where.certificates, given.files.certificates),
    ]


def _copied(what: str, folder: str, files: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """By number, so that no key of people's is too long or meets one of ours."""
    for number, key in enumerate(sorted(files)):
        yield f"{what}-{number}", f"{folder}/{key}", files[key]


def _subscription(given: Inputs) -> tuple[tuple[str, str, str], ...]:
    """A host's right to packages is needed where nobody names other repositories."""
    wanted = given.compiled and systems.os_of(given.choice.variant.system) == "rhel" and not given.files.repositories
    return systems.SUBSCRIPTION if wanted else ()


def _file(key: str, path: str) -> Json:
    return mount(_CONFIG, path, read_only=True) | {"subPath": key}
