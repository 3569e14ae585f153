"""Each YAML block of the pages is taken by the real API server: CRDs, policies and webhooks judge it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.recording.terminal import Terminal
from tests.docs.parts import WHOLE
from tests.docs.site import PAGES, ROOT, text
from tools.docs.markdown import Block, blocks

REAL = ("GPUPool",)
"""What others build on is applied for good, and removed with the page; the rest is a dry run of the server."""
SECONDS = 180.0
"""For what the module does about it."""
RUSSIAN = ".ru.md"
"""The same blocks as in English: tests/docs/test_docs_pages.py."""
WITH_YAML = [
    page for page in PAGES if not page.name.endswith(RUSSIAN) and any(b.language == "yaml" for b in blocks(text(page)))
]


def documents(block: Block) -> list[dict[str, Any]]:
    """The objects of a block; those of a part stand in their whole."""
    if (whole := block.named("part of")) is not None:
        return WHOLE[whole](yaml.safe_load(block.text))
    return [one for one in yaml.safe_load_all(block.text) if one]


def asked(body: Any) -> dict[str, int]:
    """Cards of each pool for which an object's pods ask, all in all."""
    found: dict[str, int] = {}
    limits = body.get("resources", {}).get("limits", {}) if isinstance(body, dict) else {}
    for name, count in limits.items():
        if name.startswith("gpu.deckhouse.io/"):
            found[name.partition("/")[2]] = int(count)
    for child in body.values() if isinstance(body, dict) else body if isinstance(body, list) else ():
        for pool, count in asked(child).items():
            found[pool] = found.get(pool, 0) + count
    return found


class Reader:
    """Applies what a page shows, as its reader would."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.made: list[str] = []

    def apply(self, body: dict[str, Any]) -> str:
        """What kubectl says. A pod's cards are confirmed first, as the pool's candidates say to."""
        if (namespace := body.get("metadata", {}).get("namespace")) not in {None, "default"}:
            self.terminal.typed(f"kubectl create namespace {namespace}")
            self._until(f"kubectl -n {namespace} get serviceaccount default -o name", "serviceaccount/default")
        if body["kind"] == "Pod":
            for pool, count in asked(body).items():
                self.fill(pool, count)
        (self.terminal.folder / "body.yaml").write_text(yaml.safe_dump(body))
        dry = "" if body["kind"] in REAL else " --dry-run=server"
        said = self.terminal.typed(f"kubectl apply -f body.yaml{dry}")
        if not dry and "denied" not in said:
            self.made.append(f"{body['kind']}/{body['metadata']['name']}")
        return said

    def fill(self, pool: str, count: int) -> None:
        """Confirm cards of a pool until it has as many to give."""
        if f"gpupool.gpu.deckhouse.io/{pool}" not in self.terminal.typed(f"kubectl get gpupool {pool} -o name"):
            body = {
                "apiVersion": "gpu.deckhouse.io/v1alpha1",
                "kind": "GPUPool",
                "metadata": {"name": pool},
                "spec": {},
            }
            self.apply(body)  # a page that tells only of the workload
        names = "'{range .status.candidates[*]}{.name} {end}'"
        deadline = time.monotonic() + SECONDS
        while True:
            candidates = self._until(f"kubectl get gpupool {pool} -o jsonpath={names}", "gpu-").split()
            cards = " ".join(candidates[:count])
            said = self.terminal.typed(
                f"kubectl annotate --overwrite gpudevice {cards} gpu.deckhouse.io/assignment={pool}"
            )
            if said.count(" annotated") == count:
                break  # else a card has not yet left the pool of the page before, and the webhook refuses it
            assert time.monotonic() < deadline, said
        self._until(f"kubectl get gpupool {pool} -o jsonpath='<{{.status.capacity.available}}>'", f"<{count}>")

    def _until(self, command: str, words: str) -> str:
        deadline = time.monotonic() + SECONDS
        while words not in (said := self.terminal.typed(command)):
            assert time.monotonic() < deadline, f"{command}: {words} is not in: {said}"
        return said

    def clear(self) -> None:
        self.terminal.typed("kubectl annotate gpudevice --all gpu.deckhouse.io/assignment-")
        if self.made:
            self.terminal.typed(f"kubectl delete {' '.join(self.made)} --timeout=180s")


@pytest.fixture
def reader(terminal: Terminal) -> Any:
    one = Reader(terminal)
    yield one
    one.clear()


@pytest.mark.cluster
@pytest.mark.parametrize("page", WITH_YAML, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_yaml_of_a_page_is_taken(reader: Reader, page: Path) -> None:
    wrong = []
    for block in blocks(text(page)):
        if block.language != "yaml":
            continue
        expected = block.named("refused")
        for body in documents(block):
            said = reader.apply(body)
            refused = re.search(r"is invalid|denied|[Ee]rror", said) is not None
            if expected:
                if not refused or f" {expected}: " not in said:
                    wrong.append(f"{page.name}:{block.line} is not refused with {expected}: {said}")
            elif refused or not re.search(r"(created|configured|unchanged)( \(server dry run\))?$", said):
                wrong.append(f"{page.name}:{block.line}: {said}")
            elif "Warning:" in said:
                wrong.append(f"{page.name}:{block.line} is warned of: {said}")

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_says_its_language_as_the_others_do(page: Path) -> None:
    known = {"", "yaml", "console", "shell", "mermaid", "json", "promql"}

    assert {block.language for block in blocks(text(page))} - known == set()
    for block in blocks(text(page)):
        kinds = {marker.partition(":")[0] for marker in block.markers}
        assert kinds <= {"run", "file", "part of", "refused", "demo", "lifecycle", "poolcycle"}, block
        assert block.language == "yaml" or kinds & {"file", "part of", "refused"} == set(), block
        assert (block.named("part of") or "container") in WHOLE


@pytest.mark.cluster
def test_a_wrong_yaml_is_refused(reader: Reader) -> None:
    """Nobody takes everything: the webhooks and the schema are there."""
    pool = {"apiVersion": "gpu.deckhouse.io/v1alpha1", "kind": "GPUPool", "metadata": {"name": "wrong"}}

    assert "InvalidMIGProfile" in reader.apply({**pool, "spec": {"allocation": {"mode": "MIG"}}})
    assert "strict decoding error" in reader.apply({**pool, "spec": {"alocation": {}}})
    assert "PoolNotFound" in reader.terminal.typed(
        "kubectl run lost --image=x --dry-run=server --overrides="
        '\'{"spec":{"containers":[{"name":"lost","image":"x","resources":{"limits":{"gpu.deckhouse.io/nowhere":1}}}]}}\''
    )
