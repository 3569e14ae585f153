"""Completion: kubectl's own protocol, and the scripts in the shells that are here."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.kit.waiting import PATIENCE
from tests.kubectl_gpu.conftest import Kubectl
from tests.slice.people import People
from tests.tools.lacking import lacking

pytestmark = pytest.mark.cluster
MOVING = {"backup", "restore", "import", "images"}
"""Commands that move what a cluster says elsewhere, beside takeover."""
PRESS_TAB = """
source <(kubectl-gpu completion bash)
COMP_WORDS=({words} '{last}')
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
COMP_LINE="{words} {last}"; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9; COMP_KEY=9
eval "$(complete -p kubectl-gpu | sed 's/.*-F \\([^ ]*\\) .*/complete_it=\\1/')"
$complete_it kubectl-gpu '{last}' ''
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
"""What bash does when somebody presses TAB, without a terminal."""


def until(ask: Callable[[], Any], expected: Any) -> None:
    """Names are offered only where the cluster answers in time: on a busy machine somebody presses TAB again."""
    deadline = time.monotonic() + PATIENCE
    while (found := ask()) != expected:
        assert time.monotonic() < deadline, f"{found}, expected {expected}"


async def test_kubectl_completes_commands_options_and_names(people: People, kubectl: Kubectl) -> None:
    def offers(expected: set[str], *words: str) -> None:
        def ask() -> set[str]:
            *found, directive = kubectl.run("__complete", "gpu", *words).stdout.strip().split("\n")
            assert directive == ":4", found
            return set(found)

        until(ask, expected)

    every = {"nodes", "cards", "pools", "queue", "release", "assign", "unassign", "explain", "export", "apply", *MOVING}
    offers({*every, "kueue", "versions", "driver", "timeline", "takeover", "console", "completion"}, "")
    offers({"--skew"}, "versions", "--sk")
    offers({"assign"}, "assi")
    offers({"gpu-1"}, "cards", "--node", "gpu-1")
    offers({d.name for d in people.view.devices if d.name.startswith("gpu-3-")}, "unassign", "gpu-3-")
    offers({"--dry-run"}, "assign", "--d")
    offers({"Faulted"}, "cards", "--state", "F")
    offers({"node"}, "explain", "no")
    offers({"gpu-2"}, "explain", "node", "gpu-2")
    offers({"wide"}, "queue", "-o", "w")


async def test_without_a_cluster_nothing_is_offered_and_nothing_is_said(kubectl: Kubectl) -> None:
    away = Kubectl(kubectl.plane, kubectl.programs, {"KUBECONFIG": "/no"})
    done = away.run("__complete", "gpu", "cards", "--node", "")
    assert done.stdout.strip() == ":4"
    assert "Traceback" not in done.stderr


async def test_bash_completes(people: People, kubectl: Kubectl) -> None:
    def tab(words: str, last: str) -> list[str]:
        script = PRESS_TAB.format(words=words, last=last)
        done = subprocess.run(
            ["bash", "-c", script],
            env=kubectl.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        return [word.strip() for word in done.stdout.split()]

    until(lambda: tab("kubectl-gpu", "unas"), ["unassign"])
    until(lambda: tab("kubectl-gpu cards --node", "gpu-4"), ["gpu-4"])
    until(lambda: len(tab("kubectl-gpu unassign", "gpu-4-")), 4)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_it_can_read(kubectl: Kubectl, shell: str) -> None:
    script = kubectl.gpu("completion", shell)
    assert "kubectl-gpu" in script
    if why := lacking(shell):
        pytest.skip(f"the script is there, and nobody has read it: {why}")
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
