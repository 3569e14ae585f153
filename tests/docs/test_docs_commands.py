"""The commands of the guides print what the guides say, on a cluster like that of `make up`."""

from __future__ import annotations

import difflib
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from sim.controlplane import ControlPlane
from sim.recording.record import PAGES, RUN
from sim.recording.terminal import Terminal, normal
from tests.docs.site import PAGES as ALL
from tests.docs.site import ROOT, text
from tools.docs.markdown import Step, blocks, steps, written


@pytest.mark.cluster
@pytest.mark.slow("every command of a page, one after another, as a reader types them")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_prints_what_the_page_says(readers: ControlPlane, tmp_path: Path, page: str) -> None:
    words = text(ROOT / page)
    terminal = Terminal.of(readers, ROOT, tmp_path, words)
    terminal.typed("kubectl delete namespace team-a team-b --ignore-not-found")  # of tests that came before
    told = [step for block in blocks(words) if RUN in block.markers for step in steps(block.text)]
    differences = []
    for step in told:
        said = terminal.said(step)
        if normal(said) != normal(step.output):
            lines = difflib.unified_diff(normal(step.output).splitlines(), normal(said).splitlines(), page, "now", n=9)
            differences.append("\n".join([f"$ {step.command}", *lines]))
    left = terminal.typed("kubectl get gpupools -o name; kubectl get namespace team-a -o name --ignore-not-found")

    assert not differences, "python -m sim.recording writes what is printed now:\n" + "\n".join(differences)
    assert left == "", "the page leaves the cluster as it found it"


def test_every_page_with_commands_to_run_is_among_them() -> None:
    marked = {str(page.relative_to(ROOT)) for page in ALL if any(RUN in block.markers for block in blocks(text(page)))}

    assert marked == set(PAGES)


def test_a_block_that_is_run_is_written_as_the_recorder_writes_it() -> None:
    for page in PAGES:
        for block in blocks(text(ROOT / page)):
            if RUN in block.markers:
                assert written(steps(block.text)) == block.text, f"{page}:{block.line}"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("gpu-1  Ready   5m16s", "gpu-1 Ready 9s", True),
        ("second-6b9898b466-blgkv", "second-5dd8c8b577-lct2h", True),
        ("at 2026-11-21T21:14:57Z", "at 2026-11-22T01:00:00Z", True),
        ("gpu-1   True    Ready", "gpu-1   False   Ready", False),
        ("used 1, reserved 0", "used 0, reserved 1", False),
        ("gpu-1-0000:19:00.0", "gpu-1-0000:3b:00.0", False),
        ("gpu-1-0000-19-00-0", "gpu-1-0000-3b-00-0", False),
        ("driver 580.105.08", "driver 570.148.08", False),
    ],
)
def test_only_what_differs_from_run_to_run_is_overlooked(one: str, other: str, same: bool) -> None:
    assert (normal(one) == normal(other)) is same


def test_commands_and_outputs_are_told_apart() -> None:
    block = "$ one\nits output\n\n$ two \\\n    goes on\n$ three\n"

    assert steps(block) == [Step("one", "its output"), Step("two \\\n    goes on", ""), Step("three", "")]
    assert written(steps(block)) == block


@pytest.mark.parametrize(
    ("command", "said", "typed"),
    [
        ("kubectl wait gpudevice one --for=delete --timeout=3m", "", 2),
        ("kubectl delete gpudevice one", "condition met", 1),
    ],
)
def test_a_wait_for_a_deletion_is_typed_again_and_a_deletion_is_not(
    tmp_path: Path, command: str, said: str, typed: int
) -> None:
    """kubectl prints that the condition is met where the object is still there, and nothing once it is gone."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\n[ -e typed ] || echo "condition met"\necho "$@" >> typed\n')
    kubectl.chmod(0o755)
    plane = cast("ControlPlane", SimpleNamespace(kubeconfig=tmp_path / "kubeconfig", kubectl=kubectl))
    terminal = Terminal.of(plane, ROOT, tmp_path / "page", "")

    assert terminal.said(Step(command, "")) == said
    assert len((terminal.folder / "typed").read_text().splitlines()) == typed
