"""`kubectl gpu export` and `apply`: what people said of cards goes onto the same cards, and onto no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.record import to_json
from controllers.explain.faults import UsageError
from controllers.runtime.errors import Forbidden, RuntimeFault
from kubectl_gpu import backing_up, keeping
from kubectl_gpu.cluster import Found
from kubectl_gpu.parser import build
from tests.kit import objects

DENIED = 'admission webhook "gpudevices.gpu.deckhouse.io" denied the request: UnknownPool: there is no GPUPool.'
NO = Forbidden(403, "Forbidden", DENIED)
OURS = {names.LABEL_NODE: "n1", names.LABEL_VENDOR: "nvidia"}
ASSIGNED = {"annotations": {names.ASSIGNMENT: "a"}}


def card(number: int, uuid: str | None = "", **meta: Any) -> GPUDevice:
    """A card of n1 whose uuid is its own where nothing else is said."""
    hardware = {"uuid": f"GPU-0000000{number}" if uuid == "" else uuid}
    labels = {**OURS, **meta.pop("labels", {})}
    return objects.card("n1", number, hardware=hardware, meta={"labels": labels, **meta})


class Api:
    """Cards, and what is written of them; refuses assignments where `refuses` says so."""

    def __init__(self, *cards: GPUDevice, refuses: RuntimeFault | None = None) -> None:
        self.cards, self.refuses = list(cards), refuses
        self.written: list[tuple[str, Any]] = []
        self.asked = 0

    async def list(self, *_: Any, **__: Any) -> list[Found[GPUDevice]]:
        return [Found({"metadata": to_json(c.metadata), "status": to_json(c.status)}, c) for c in self.cards]

    async def mark(self, _: Any, obj: GPUDevice, marks: Any, *, dry_run: bool) -> None:
        self.asked += 1
        if self.refuses is not None and names.ASSIGNMENT in marks.get("annotations", {}):
            raise self.refuses
        if not dry_run:
            self.written.append((obj.name, marks))


async def command(api: Api, line: str) -> int:
    args = build().parse_args(line.split())
    known = {"export": keeping.export, "apply": keeping.apply, "restore": backing_up.restore}
    return await known[args.command](api, args)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cards.yaml"


def stored(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


async def exported(file: Path, capsys: pytest.CaptureFixture[str], *cards: GPUDevice) -> None:
    assert await command(Api(*cards), "export") == 0
    stored(file, capsys.readouterr().out)


async def test_what_people_said_is_printed_and_what_the_module_writes_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = {names.ASSIGNMENT: "a", names.LABEL_IGNORE: "true", names.RETURN: "true"}
    cards = (card(0, annotations=said, labels={"team": "x"}), card(1))
    assert await command(Api(*cards), "export -o json") == 0

    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["metadata"] == {
        "name": "n1-0000-00-00-0",
        "labels": {"team": "x"},
        "annotations": {names.ASSIGNMENT: "a", names.LABEL_IGNORE: "true"},  # a command that is obeyed once is none
    }
    assert item["status"]["hardware"]["uuid"] == "GPU-00000000"
    assert (item["kind"], item["apiVersion"]) == ("GPUDevice", "gpu.deckhouse.io/v1alpha1")


async def test_it_goes_back_onto_the_same_card(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await exported(file, capsys, card(0, **ASSIGNED, labels={"team": "x"}), card(1))
    api = Api(card(0), card(1))

    assert await command(api, f"apply -f {file}") == 0
    assert api.written == [("n1-0000-00-00-0", {"labels": {"team": "x"}}), ("n1-0000-00-00-0", ASSIGNED)]
    assert "1 card restored, 0 as in the file, 0 left." in capsys.readouterr().out


async def test_what_is_there_already_is_not_written_again(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await exported(file, capsys, card(0, **ASSIGNED))
    api = Api(card(0, **ASSIGNED))

    assert await command(api, f"apply -f {file}") == 0
    assert (api.asked, api.written) == (0, [])


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ((card(0, "GPU-77777777"),), "another card is in its place: GPU-00000000 is expected, GPU-77777777 found"),
        ((card(0, None),), "its uuid is not known yet"),
        ((), "there is no such card (yet)"),
    ],
    ids=["another", "unknown", "none"],
)
async def test_another_card_gets_nothing_and_it_is_said(
    file: Path, capsys: pytest.CaptureFixture[str], there: tuple[GPUDevice, ...], why: str
) -> None:
    await exported(file, capsys, card(0, **ASSIGNED), card(1, **ASSIGNED))
    api = Api(*there, card(1))

    assert await command(api, f"apply -f {file}") == 1
    assert api.written == [("n1-0000-01-00-0", ASSIGNED)]
    assert why in capsys.readouterr().err


async def test_a_file_without_uuids_names_nobody(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await exported(file, capsys, card(0, None, **ASSIGNED))
    api = Api(card(0))

    assert await command(api, f"apply -f {file}") == 1
    assert "the file does not tell its uuid" in capsys.readouterr().err
    assert api.written == []


async def test_a_backup_replaces_nothing_that_was_said_of_a_card_since_unless_it_is_told_to(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await exported(file, capsys, card(0, **ASSIGNED, labels={"team": "x", "new": "1"}), card(1, **ASSIGNED))
    api = Api(card(0, annotations={names.ASSIGNMENT: "b"}, labels={"team": "y"}), card(1))
    changes = f"{names.ASSIGNMENT}: b → a, new=1, team: y → x"

    assert await command(api, f"restore -f {file}") == 1
    assert f"n1-0000-00-00-0 ({changes}): {keeping.OVERWRITE}" in capsys.readouterr().err
    assert await command(api, f"restore -f {file} --apply --wait") == 1, "and it does not wait for it"
    assert api.written == [("n1-0000-01-00-0", ASSIGNED)]
    told = capsys.readouterr()
    assert changes in told.err
    assert "1 card restored, 0 as in the file, 1 left." in told.out

    assert await command(api, f"restore -f {file} --overwrite") == 0
    assert f"n1-0000-00-00-0: {changes}" in capsys.readouterr().out
    assert await command(api, f"restore -f {file} --overwrite --apply") == 0
    assert api.written[1:3] == [
        ("n1-0000-00-00-0", {"labels": {"new": "1", "team": "x"}}),
        ("n1-0000-00-00-0", ASSIGNED),
    ]


async def test_what_is_refused_is_said_and_keeps_nothing_else_back(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ignored = {names.LABEL_IGNORE: "true"}
    await exported(file, capsys, card(0, **ASSIGNED, labels=ignored), card(1, labels=ignored))
    api = Api(card(0), card(1), refuses=NO)

    assert await command(api, f"apply -f {file} -o json") == 1
    told = capsys.readouterr()
    assert [c["done"] for c in json.loads(told.out)["cards"]] == [False, True]
    assert "UnknownPool: there is no GPUPool." in told.err
    assert api.written == [("n1-0000-00-00-0", {"labels": ignored}), ("n1-0000-01-00-0", {"labels": ignored})]


async def test_a_dry_run_writes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await exported(file, capsys, card(0, **ASSIGNED))
    api = Api(card(0))

    assert await command(api, f"apply -f {file} --dry-run") == 0
    assert api.asked == 0
    assert await command(api, f"apply -f {file} --dry-run=server") == 0
    assert (api.asked, api.written) == (1, [])


async def test_waiting_tries_again_until_the_card_is_found(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await exported(file, capsys, card(0, **ASSIGNED))
    api = Api()

    async def found(_: float) -> None:
        api.cards = [card(0)]

    monkeypatch.setattr(keeping.asyncio, "sleep", found)
    assert await command(api, f"apply -f {file} --wait -o name") == 0
    assert capsys.readouterr() == ("gpudevice.gpu.deckhouse.io/n1-0000-00-00-0\n", "")


async def test_what_kubectl_get_prints_is_taken_too(file: Path) -> None:
    whole = [{**found.raw, "kind": "GPUDevice", "apiVersion": "gpu.deckhouse.io/v1alpha1"}
             for found in await Api(card(0, **ASSIGNED), card(1)).list()]  # fmt: skip
    stored(file, yaml.safe_dump_all(whole))
    api = Api(card(0), card(1))

    assert await command(api, f"apply -f {file}") == 0
    assert api.written == [("n1-0000-00-00-0", ASSIGNED)]


@pytest.mark.parametrize(("text", "told"), [
    ("{", "is no YAML in line 1, column 2"),
    ("just words", "a value of type str where one is expected"),
    ("kind: List\nitems: [3]\n", "a value of type int where one is expected"),
    ("kind: List\nitems: {a: b}\n", "items of its List are of type dict"),
    ("kind: Pod\napiVersion: v1\n", "is not what kubectl gpu export writes: it holds a Pod"),
    ("kind: GPUDevice\n", "is not what kubectl gpu export writes"),
])  # fmt: skip
async def test_another_file_is_a_mistake(file: Path, text: str, told: str) -> None:
    stored(file, text)
    with pytest.raises(UsageError, match=told):
        await command(Api(), f"apply -f {file}")


async def test_a_file_that_is_not_there_is_a_mistake(file: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        await command(Api(), f"apply -f {file}")
