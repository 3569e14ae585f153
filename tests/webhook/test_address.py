"""The word in the paths by which reviews come."""

from __future__ import annotations

import time

import pytest

from webhook import rotation
from webhook.address import addressed, word_in, word_of
from webhook.rotation import Policy

WORD, OLD = "0123456789abcdef" * 2, "f" * 32


@pytest.mark.parametrize("path", ["/mutate-pods", "/validate"])
@pytest.mark.parametrize("there", ["", f"/{OLD}"])
def test_a_path_of_ours_gets_the_word(path: str, there: str) -> None:
    service = {"namespace": "d8-gpu-operator", "name": "gpu-admission-webhook", "path": f"{path}{there}", "port": 443}
    assert addressed({"service": service, "caBundle": "x"}, WORD) == {"service": {"path": f"{path}/{WORD}"}}
    assert addressed({"url": f"https://[::1]:9443/x{path}{there}"}, WORD) == {
        "url": f"https://[::1]:9443/x{path}/{WORD}"
    }


@pytest.mark.parametrize(
    "client",
    [
        {"url": "https://127.0.0.1:1/of-others"},
        {"service": {"name": "of-others", "namespace": "x"}},
        {"url": f"https://127.0.0.1:1/mutate-pods/{OLD}/more"},
        {},
    ],
)
def test_a_path_that_is_none_of_ours_stays(client: dict[str, object]) -> None:
    assert addressed(client, WORD) == {}
    assert word_in(client) is None


@pytest.mark.parametrize("word", ["", OLD])
def test_the_word_is_read_where_it_was_written(word: str) -> None:
    path = f"/validate/{word}".removesuffix("/")
    assert word_in({"url": f"https://127.0.0.1:1{path}"}) == word_in({"service": {"path": path}}) == word


def test_replicas_agree_on_the_word_until_there_is_a_new_authority() -> None:
    policy = Policy()
    first = rotation.make(time.time(), policy)
    renewed, added = rotation.issue(first, time.time(), policy), rotation.add_authority(first, time.time(), policy)
    assert word_of(first) == word_of(renewed) != word_of(added)
    assert len(word_of(first)) == 32
