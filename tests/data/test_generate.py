"""The command that writes the facts: what it writes, what it compares, and the form of its files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.data import facts
from tests.data.generate import __main__ as command
from tests.data.generate.index import sources
from tests.data.generate.layout import WIDTH, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INDEX = """\
# Inputs

- `topo/topo-m.txt` - two cards. Source: some/body@0123456789ab `docs/a b.md`; licence MIT; block, lines 3-5; 1 B.
- `dcgm/fgo-x.txt` **reference** - odd; all. Source: other/one@ba9876543210 `x/<1/s.ini`; licence GPL-3.0; all; 9 B.
- `nodefeature_derived/d.yaml` - a node. Source: a/b@00000000000a `t/x.xml`; licence BSD-3-Clause; DERIVED; 9 B.
- `manifests/unused.yaml` - no test uses it. Source: a/b@00000000000a `x`; licence Apache-2.0; verbatim; 9 B.
"""
SERIES = '# TYPE DCGM_FI_DEV_GPU_TEMP gauge\nDCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1"} 40\n'
FILES = {
    "INDEX.md": INDEX,
    "topo/topo-m.txt": "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t1\n",
    "dcgm/fgo-x.txt": SERIES,
    "nodefeature_derived/d.yaml": "kind: NodeFeature\nmetadata: {name: n}\nspec: {}\n",
    "manifests/unused.yaml": "kind: Pod\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Dumps; what is made of them goes elsewhere than into the repository."""
    for name, text in FILES.items():
        (tmp_path / "dumps" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dumps" / name).write_text(text)
    (tmp_path / "made").mkdir()
    for module in (facts, command):
        monkeypatch.setattr(module, "HERE", tmp_path / "made")
    return tmp_path / "dumps"


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    facts._read.cache_clear()
    yield
    facts._read.cache_clear()


def test_sources_are_those_of_the_index(folder: Path) -> None:
    found = sources(folder)
    assert list(found) == [name for name in FILES if name != "INDEX.md"]
    assert found["topo/topo-m.txt"] == {
        "repository": "some/body", "commit": "0123456789ab", "path": "docs/a b.md", "licence": "MIT", "lines": "3-5",
    }  # fmt: skip
    assert found["dcgm/fgo-x.txt"]["licence"] == "GPL-3.0"
    assert "derived" in found["nodefeature_derived/d.yaml"]


def test_what_is_written_is_what_is_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(folder)]) == 0
    assert facts.dumps("*") == ["dcgm/fgo-x.txt", "nodefeature_derived/d.yaml", "topo/topo-m.txt"]
    assert facts.read("topo/topo-m.txt")["source"]["repository"] == "some/body"
    (node,) = facts.nodes("topo/topo-m.txt")
    assert node.node_name == "topo-m"
    assert [card.numa_node for card in node.cards or ()] == [1]
    capsys.readouterr()
    assert command.main([str(folder), "--check"]) == 0
    assert capsys.readouterr().out == "3 files and 1 texts compared, 0 differ\n"


def test_a_difference_is_told_and_nothing_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.main([str(folder)])
    (folder.parent / "made" / "topo" / "old.txt.json").write_text("{}\n")
    (folder / "dcgm" / "fgo-x.txt").write_text(SERIES.replace("} 40", "} 41"))
    capsys.readouterr()
    assert command.main([str(folder), "--check"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "dcgm/fgo-x.txt.json is not what the generator makes",
        "topo/old.txt.json is not what the generator makes",
        "dcgm/fgo-x.txt does not read as it did where it comes from",
        "3 files and 1 texts compared, 3 differ",
    ]
    assert command.main([str(folder)]) == 0
    assert not (folder.parent / "made" / "topo" / "old.txt.json").exists(), "what nothing makes goes"
    facts._read.cache_clear()
    assert command.main([str(folder), "--check"]) == 0


def test_a_folder_without_an_index_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main([str(tmp_path)])
    assert "INDEX.md is not there" in capsys.readouterr().err


def test_the_form_of_a_file_is_stable_and_narrow() -> None:
    value = {"b": [{"key": "x" * 30, "n": number} for number in range(9)], "a": {}, "c": ("tuple", None, True, "é")}
    text = text_of(value)
    assert json.loads(text) == {**value, "c": ["tuple", None, True, "é"]}
    assert text == text_of(json.loads(text)) == text_of(dict(reversed(value.items())))
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    assert text.splitlines()[1] == ' "a": {},', "what has lines of its own begins one"
    assert text.splitlines()[3].count("key") == 2, "what fits on a line is on one"
