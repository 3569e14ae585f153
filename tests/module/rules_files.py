"""Rules of dmt's linters `documentation`, `hooks`, `images`, `module`, `no-cyrillic` and `openapi`: the files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.module.module import Module

CYRILLIC = re.compile(r"[\u0400-\u04ff]")
RUSSIAN = re.compile(r"(^|/)doc-ru-[^/]*$|\.ru\.[a-z]+$|_RU\.[a-z]+$|(^|/)module\.yaml$|openapi/conversions/")
CONVERSIONS = "openapi/conversions/"
KEYS = {
    *("name", "critical", "namespace", "weight", "tags", "subsystems", "stage", "descriptions", "exclusiveGroup"),
    *("requirements", "accessibility", "update", "disable", "messages"),
}
STAGES = {"Experimental", "Preview", "General Availability", "Deprecated"}
OSS = ("id", "version", "name", "description", "link", "license")
IGNORED = ("docs", "images", "openapi", "hooks", "crds/doc-ru-", "module.yaml")
PATCH = re.compile(r"\d{3}-[^/]+\.patch")


def translated(module: Module) -> Iterator[str]:
    """A document that has a translation is in English, and the other way round: both are there."""
    for path, text in module.files.items():
        if not path.startswith("docs/") or not path.endswith(".md"):
            continue
        if path.endswith(".ru.md") and path.removesuffix(".ru.md") + ".md" not in module.files:
            yield f"{path}: not in English"
        if not path.endswith(".ru.md") and CYRILLIC.search(text):
            yield f"{path}: Cyrillic"
        if re.match(r"---\n(.*\n)*?lang:", text):
            yield f"{path}: front matter lang"


def certificates_for_ingresses(module: Module) -> Iterator[str]:
    """Who has an Ingress copies the platform's certificate."""
    ingresses = [name for name, _ in module.of("Ingress")]
    if ingresses and not any(
        "copy_custom_certificate" in text for p, text in module.files.items() if p.startswith("hooks/")
    ):
        yield f"Ingress {ingresses[0]}: no hook copy_custom_certificate"


def slim_images(module: Module) -> Iterator[str]:
    """The last stage is empty or distroless; werf has no artifacts and no user; patches are numbered and told of."""
    for path, text in module.files.items():
        if path.endswith("Dockerfile"):
            stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?", text, re.MULTILINE)
            bases, own = [base for base, _ in stages], {name for _, name in stages if name}
            if not re.fullmatch(r"scratch|\$\{?BASE_DISTROLESS\w*\}?", bases[-1]):
                yield f"{path}: the last stage is made from {bases[-1]}"
            if chosen := [b for b in bases if b not in own and not re.fullmatch(r"scratch|\$\{?\w+\}?", b)]:
                yield f"{path}: no build can choose {chosen}"
        if path.endswith("werf.inc.yaml") and re.search(r"^(artifact|user):|^\s+user:", text, re.MULTILINE):
            yield f"{path}: artifact or user"
        if path.endswith("werf.inc.yaml") and (image := re.search(r"^image: .*_.*$", text, re.MULTILINE)):
            yield f"{path}: {image[0]}"
        folder, _, name = path.rpartition("/")
        if folder.startswith("images/") and folder.endswith("/patches") and name != "README.md":
            if not PATCH.fullmatch(name):
                yield f"{path}: not NNN-name.patch"
            if f"{folder}/README.md" not in module.files:
                yield f"{folder}: no README.md"


def definition(module: Module) -> Iterator[str]:
    """module.yaml has what the platform knows, and nothing that is out of date."""
    found = yaml.safe_load(module.files["module.yaml"])
    yield from (f"module.yaml: {key}" for key in found.keys() - KEYS)
    if not re.fullmatch(r"[a-z]([a-z0-9-]{0,62}[a-z0-9])?", found.get("name", "")):
        yield "module.yaml: name"
    if not found.get("namespace", "").startswith("d8-"):
        yield "module.yaml: namespace"
    if found.get("stage") not in STAGES:
        yield "module.yaml: stage"
    if "en" not in found.get("descriptions", {}):
        yield "module.yaml: descriptions.en"
    least = re.search(r">=\s*v?1\.(\d+)", found.get("requirements", {}).get("deckhouse", ""))
    if least is None:
        yield "module.yaml: requirements.deckhouse"
    elif int(least[1]) >= 72 and "weight" in found:
        yield "module.yaml: weight"
    for path in ("release.yaml", "enabled"):
        if path in module.files:
            yield f"{path}: of an older form"


def conversions(module: Module) -> Iterator[str]:
    """Each version of the settings after the first has its conversion, told in both languages."""
    latest = yaml.safe_load(module.files["openapi/config-values.yaml"])["x-config-version"]
    found = {path: yaml.safe_load(text) for path, text in module.files.items() if path.startswith(CONVERSIONS)}
    wanted = {f"{CONVERSIONS}v{number}.yaml": number for number in range(2, latest + 1)}
    yield from (f"{path}: missing, or too many" for path in found.keys() ^ wanted.keys())
    for path in found.keys() & wanted.keys():
        if found[path].get("version") != wanted[path]:
            yield f"{path}: version"
        yield from (f"{path}: description.{word}" for word in ("en", "ru") if not found[path]["description"].get(word))


def open_source(module: Module) -> Iterator[str]:
    """oss.yaml says what others wrote, each once and completely."""
    listed = yaml.safe_load(module.files.get("oss.yaml", "[]"))
    ids = [item.get("id") for item in listed]
    if not listed or len(ids) != len(set(ids)):
        yield f"oss.yaml: ids {ids}"
    yield from (f"oss.yaml: {i.get('id')}: {key}" for i in listed for key in OSS if not isinstance(i.get(key), str))


def helm_ignores(module: Module) -> Iterator[str]:
    """What is no part of the chart stays out of it."""
    lines = [line.strip("/") for line in module.files[".helmignore"].splitlines()]
    yield from (
        f".helmignore: {name}" for name in IGNORED if not any(line.startswith(name.rstrip("/")) for line in lines)
    )


def no_cyrillic(module: Module) -> Iterator[str]:
    """Only what is meant for Russian readers is Russian."""
    for path, text in module.files.items():
        if path.endswith((".yaml", ".yml", ".json")) and not RUSSIAN.search(path) and (hit := CYRILLIC.search(text)):
            yield f"{path}: {text[max(0, hit.start() - 10) : hit.start() + 10]!r}"


def _schemas(schema: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        yield where, schema
        for key, below in schema.items():
            yield from _schemas(below, f"{where}.{key}")


def openapi(module: Module) -> Iterator[str]:
    """Values of enums are words in camel case; high availability is left to the platform; each setting is described."""
    for path in ("openapi/config-values.yaml", "openapi/values.yaml"):
        for where, schema in _schemas(yaml.safe_load(module.files[path])):
            for value in schema.get("enum", ()) if isinstance(schema.get("enum"), list) else ():
                if isinstance(value, str) and not re.fullmatch(r"[A-Z][A-Za-z0-9]*", value):
                    yield f"{path}{where}: enum {value}"
            if where.endswith(".highAvailability") and "default" in schema:
                yield f"{path}{where}: default"
    if "openapi/doc-ru-config-values.yaml" not in module.files:
        yield "openapi/doc-ru-config-values.yaml: missing"


def definitions(module: Module) -> Iterator[str]:
    """Each CRD is of the present version, says whose it is, and has a Russian description."""
    for path, text in module.files.items():
        folder, _, name = path.rpartition("/")
        if folder != "crds" or name.startswith("doc-ru-"):
            continue
        found = yaml.safe_load(text)
        if found["apiVersion"] != "apiextensions.k8s.io/v1":
            yield f"{path}: apiVersion"
        if found["metadata"].get("labels", {}).get("module") != "gpu-control-plane":
            yield f"{path}: label module"
        if any("deprecated" in schema for _, schema in _schemas(found) if "type" in schema):
            yield f"{path}: deprecated"
        if f"crds/doc-ru-{name}" not in module.files:
            yield f"crds/doc-ru-{name}: missing"


RULES = (
    *(translated, certificates_for_ingresses, slim_images, definition, open_source, helm_ignores, no_cyrillic, openapi),
    *(definitions, conversions),
)
