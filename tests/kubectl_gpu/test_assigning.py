"""What is said to be done is done: refusals while asking and while writing, of named cards and of a node's."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from typing import Any

import pytest
import yaml

from controllers.api import resources
from controllers.api.gpudevice import GPUDevice
from controllers.domain.assignment import assigned_pool
from controllers.explain.faults import UsageError
from controllers.runtime.errors import Forbidden, NotFound, RuntimeFault
from kubectl_gpu import assigning, listing
from kubectl_gpu.cluster import Found
from kubectl_gpu.output import structured
from kubectl_gpu.parser import build
from kubectl_gpu.terminal import forgive, print_lines
from tests.kubectl_gpu.test_say import POOL, device, pool

NODE = "worker-01"
DENIED = 'admission webhook "gpudevices.gpu.deckhouse.io" denied the request: DeviceNotInSelector: not meant.'
NO = Forbidden(403, "Forbidden", DENIED)
RBAC = Forbidden(403, "Forbidden", 'User "joe" cannot patch resource "gpudevices" in API group "gpu.deckhouse.io"')


class Api:
    """Cards and pools; refuses a card's change while asking, or only while writing."""

    def __init__(
        self,
        *cards: GPUDevice,
        asking: dict[str, RuntimeFault] | None = None,
        writing: dict[str, RuntimeFault] | None = None,
        may_read: bool = True,
    ) -> None:
        self.cards, self.asking, self.writing, self.may_read = cards, asking or {}, writing or {}, may_read
        self.written: dict[str, str | None] = {}

    def _of(self, resource: resources.Resource) -> list[Any]:
        if resource == resources.GPUDEVICE:
            return list(self.cards)
        if not self.may_read:
            raise Forbidden(403, "Forbidden", f"{resource.kind} is not for you")
        return [pool()] if resource == resources.GPUPOOL else []

    async def get(self, resource: resources.Resource, _: Any, name: str, __: str | None = None) -> Any:
        for obj in self._of(resource):
            if obj.name == name:
                return Found({}, obj)
        raise NotFound(404, "NotFound", f"no {name}", about=name)

    async def list(
        self, resource: resources.Resource, _: Any, *, fields: dict[str, str] | None = None, **__: Any
    ) -> Any:
        found = [Found({}, obj) for obj in self._of(resource)]
        return [] if fields and fields.get("status.nodeName", NODE) != NODE else found

    async def annotate(self, _: Any, obj: GPUDevice, __: str, value: str | None, *, dry_run: bool) -> None:
        faults = self.asking if dry_run else {**self.asking, **self.writing}
        if obj.name in faults:
            raise faults[obj.name]
        if not dry_run:
            self.written[obj.name] = value


FREE = tuple(device(f"0000:{at}:00.0", claim=None, pool_ref=None, published=None) for at in ("17", "3b", "4c"))
FIRST, SECOND, THIRD = (card.name for card in FREE)


async def command(api: Api, line: str) -> int:
    args = build().parse_args(line.split())
    return await {"assign": assigning.assign, "unassign": assigning.unassign, "cards": listing.cards}[args.command](
        api,  # type: ignore[arg-type]
        args,
    )


def names_in(text: str) -> list[str]:
    return [line.rpartition("/")[2] for line in text.splitlines()]


class TestRefusals:
    async def test_one_while_asking_leaves_all_as_they_were(self, capsys: pytest.CaptureFixture[str]) -> None:
        api, line = Api(*FREE, asking={SECOND: NO}), f"assign {FIRST} {SECOND} {THIRD} {POOL}"
        assert await command(api, line) == 1
        assert "1 card of 3 refused. Nothing was changed." in capsys.readouterr().err
        assert await command(api, f"{line} -o name") == 1
        assert capsys.readouterr().out == ""
        assert await command(api, f"{line} -o json") == 1
        changes = json.loads(capsys.readouterr().out)["changes"]
        assert [change["done"] for change in changes] == [False] * 3
        assert [change["refused"] for change in changes] == [None, "DeviceNotInSelector: not meant.", None]
        assert api.written == {}

    async def test_one_while_writing_leaves_the_others_done(self, capsys: pytest.CaptureFixture[str]) -> None:
        api, line = Api(*FREE, writing={SECOND: NO}), f"assign {FIRST} {SECOND} {THIRD} {POOL}"
        assert await command(api, line) == 1
        assert "1 card of 3 refused. 2 were changed." in capsys.readouterr().err
        assert await command(api, f"{line} -o name") == 1
        assert names_in(capsys.readouterr().out) == [FIRST, THIRD]
        assert await command(api, f"{line} -o json") == 1
        assert [c["done"] for c in json.loads(capsys.readouterr().out)["changes"]] == [True, False, True]
        assert api.written == {FIRST: POOL, THIRD: POOL}

    async def test_a_dry_run_names_what_would_be_done_and_calls_nothing_done(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        there = device("0000:5d:00.0")
        api, line = Api(*FREE, there), f"assign {FIRST} {there.name} {POOL} --dry-run=server"
        assert await command(api, f"{line} -o name") == 0
        assert names_in(capsys.readouterr().out) == [FIRST, there.name]
        assert await command(api, f"{line} -o json") == 0
        assert [c["done"] for c in json.loads(capsys.readouterr().out)["changes"]] == [False, True]
        assert api.written == {}

    @pytest.mark.parametrize("form", ["table", "name", "json"])
    async def test_a_dry_run_on_the_client_says_that_the_webhook_was_not_asked(
        self, form: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        api, there = Api(*FREE, asking={SECOND: NO}), device("0000:5d:00.0")
        assert await command(api, f"assign {FIRST} {SECOND} {POOL} --dry-run=client -o {form}") == 0
        assert "The webhook was not asked, and may refuse" in capsys.readouterr().err
        for others in (f"{FIRST} {POOL} --dry-run=server", f"{there.name} {POOL} --dry-run=client"):
            assert await command(Api(*FREE, there), f"assign {others} -o {form}") == 0
            assert "was not asked" not in capsys.readouterr().err
        assert api.written == {}


class TestANode:
    async def test_what_the_webhook_refuses_is_left_alone(self, capsys: pytest.CaptureFixture[str]) -> None:
        api = Api(*FREE, asking={SECOND: NO})
        assert await command(api, f"assign --node {NODE} {POOL}") == 0
        said = capsys.readouterr()
        assert f"Left alone: {SECOND}: DeviceNotInSelector: not meant." in said.err
        assert SECOND not in said.out
        assert f"2 cards assigned to {POOL}." in said.out
        assert api.written == {FIRST: POOL, THIRD: POOL}

    async def test_a_named_one_of_it_fails(self, capsys: pytest.CaptureFixture[str]) -> None:
        api = Api(*FREE, asking={SECOND: NO})
        assert await command(api, f"assign --node {NODE} {SECOND} {POOL}") == 1
        assert "Nothing was changed." in capsys.readouterr().err
        assert api.written == {}

    async def test_who_may_not_write_and_a_node_of_which_no_card_fits_fail(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for fault, sentence in ((RBAC, "joe may not patch"), (NO, f"no card of node {NODE} can be assigned")):
            api = Api(*FREE, asking=dict.fromkeys((FIRST, SECOND, THIRD), fault))
            assert await command(api, f"assign --node {NODE} {POOL}") == 1
            assert sentence in capsys.readouterr().err
            assert api.written == {}

    async def test_unassign_warns_of_a_pool_that_takes_its_cards_back(self, capsys: pytest.CaptureFixture[str]) -> None:
        own = device(auto_attach=True)
        assert assigned_pool(own) == POOL
        api = Api(own)
        assert await command(api, f"unassign {own.name}") == 0
        said = capsys.readouterr()
        assert f"GPUPool {POOL} takes {own.name} back by itself: kubectl label" in said.err
        assert (api.written, said.out.splitlines()[-1]) == ({own.name: None}, "1 card unassigned.")


class TestNothingFound:
    async def test_of_a_node_or_pool_that_is_not_there(self) -> None:
        with pytest.raises(UsageError, match="There is no node with cards 'gpu-9'"):
            await command(Api(*FREE), "cards --node gpu-9")

    async def test_who_may_not_read_it_hears_that_no_card_matches(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert await command(Api(*FREE, may_read=False), "cards --node gpu-9") == 0
        assert capsys.readouterr().err == "No card matches.\n"
        with pytest.raises(UsageError, match=r"Node 'gpu-9' has no cards\.$"):
            await command(Api(*FREE, may_read=False), "unassign --node gpu-9")


class Moving(Api):
    """What is written comes to pass: a card leaves its pool, or comes into one; one that is lost is forgotten."""

    def __init__(self, *cards: GPUDevice, lost: str, successor: bool = False) -> None:
        super().__init__(*cards)
        self.lost, self.successor = lost, successor

    async def annotate(self, kind: Any, obj: GPUDevice, key: str, value: str | None, *, dry_run: bool) -> None:
        await super().annotate(kind, obj, key, value, dry_run=dry_run)
        if dry_run:
            return
        others = [card for card in self.cards if card.name != obj.name]
        address = (obj.status.inventory_id or "").removeprefix(f"{NODE}-")
        if obj.name != self.lost:
            there = {} if value else {"pool_ref": None, "published": None}
            others.append(device(address, claim=value, **there))
        elif self.successor:
            free = device(address, claim=None, pool_ref=None, published=None)
            others.append(replace(free, metadata=replace(free.metadata, uid="another")))
        self.cards = tuple(others)


TAKEN = tuple(device(f"0000:{at}:00.0") for at in ("17", "3b"))


class TestWaiting:
    @pytest.mark.parametrize("successor", [False, True])
    async def test_a_lost_card_that_is_forgotten_is_in_no_pool(
        self, capsys: pytest.CaptureFixture[str], successor: bool
    ) -> None:
        api = Moving(*TAKEN, lost=FIRST, successor=successor)
        assert await command(api, f"unassign {FIRST} {SECOND} --wait --timeout 5") == 0
        assert capsys.readouterr().err.endswith("2 cards in no pool.\n")

    @pytest.mark.parametrize(("successor", "said"), [(False, f"error: no {FIRST}"), (True, "is another card by now")])
    async def test_one_that_goes_while_it_is_assigned_fails_and_the_others_are_waited_for(
        self, capsys: pytest.CaptureFixture[str], successor: bool, said: str
    ) -> None:
        api = Moving(*FREE[:2], lost=FIRST, successor=successor)
        assert await command(api, f"assign {FIRST} {SECOND} {POOL} --wait --timeout 5") == 1
        error = capsys.readouterr().err
        assert said in error
        assert "after 5 s" not in error
        assert SECOND not in error

    async def test_a_kind_that_is_gone_is_no_arrival(self) -> None:
        class Uninstalled(Moving):
            async def get(self, resource: resources.Resource, _: Any, name: str, __: str | None = None) -> Any:
                if self.written:
                    raise NotFound(404, "NotFound", "the server could not find the requested resource")
                return await super().get(resource, _, name, __)

        with pytest.raises(NotFound):
            await command(Uninstalled(*TAKEN, lost=FIRST), f"unassign {FIRST} --wait --timeout 5")


def ascii_stdout(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """Called in a test, not by a fixture: pytest sets standard output anew in between."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    return raw


class TestATerminalWithoutUtf8:
    def test_gets_what_it_can_show(self, monkeypatch: pytest.MonkeyPatch) -> None:
        written = ascii_stdout(monkeypatch)
        forgive()
        print_lines(["no pool → training, worker-01… größer"])
        assert written.getvalue() == b"no pool -> training, worker-01... gr??er\n"

    @pytest.mark.parametrize("form", ["json", "yaml"])
    def test_gets_data_whole(self, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
        written = ascii_stdout(monkeypatch)
        structured({"why": "größer → …"}, form)
        assert yaml.safe_load(written.getvalue()) == {"why": "größer → …"}
