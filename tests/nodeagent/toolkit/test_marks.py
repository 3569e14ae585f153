"""Laws of editing a file that is somebody else's, whatever stands in it."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from nodeagent.toolkit.config import marks
from nodeagent.toolkit.config.effective import Handler

if TYPE_CHECKING:
    from collections.abc import Sequence

PLUGIN = "io.containerd.grpc.v1.cri"
OURS = [
    Handler("nvidia", "/usr/local/nvidia/toolkit/nvidia-container-runtime", options={"SystemdCgroup": True}),
    Handler("nvidia-cdi", "/x", settings={"pod_annotations": ['a "b"\\', "é\x7f"], "cni_max_conf_num": 2}),
]
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\r\n\x00"), max_size=12)
LOOKS_LIKE = (f'[plugins."{PLUGIN}"]', "enable_cdi = true", "[debug]", marks.CDI, '"""', "# END something")
SWITCH = st.sampled_from(["", "enable_cdi = false\n", "  enable_cdi = false # why\n", "enable_cdi = true\n"])


@st.composite
def files(draw: st.DrawFn) -> str:
    """A configuration: tables in some order, comments, strings of many lines that look like tables, passwords."""
    secret = json.dumps(draw(st.text("abcdef0123456789", min_size=8, max_size=8)))
    confusing = "\n".join(draw(st.lists(st.sampled_from(LOOKS_LIKE[:4]), max_size=3)))
    parts = [
        f'[plugins."{PLUGIN}".registry.configs."r".auth]\npassword = {secret}\n',
        f"[proxy_plugins.x]\naddress = '''\n{confusing}\n'''\n",
        "[[stream]]\nreturns = 'x'\n",
        f'[ plugins . "{PLUGIN}".containerd ]\nsnapshotter = "overlayfs"\n',
        '[plugins."io.containerd.gc.v1.scheduler"]\nenable_cdi = false\narray = [\n[1, 2],\n[3],\n]\n',
    ]
    if draw(st.booleans()):
        parts.append(f"[plugins.'{PLUGIN}'] # cri\nsandbox_image = 'p'\n{draw(SWITCH)}")
    made = ["version = 2\n"]
    for part in draw(st.permutations(parts))[: draw(st.integers(0, len(parts)))]:
        comment = draw(TEXT).replace(marks.MODULE, "")
        made += [part, "#" + "".join(c for c in comment if c.isprintable()) + "\n"]
    text = "".join(made)
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return text.rstrip("\r\n") if draw(st.booleans()) else text


def handlers(count: int) -> Sequence[Handler]:
    return OURS[:count]


@given(files(), st.integers(0, 2), st.booleans())
def test_an_edit_adds_what_is_asked_for_and_can_be_taken_back_to_the_byte(text: str, count: int, cdi: bool) -> None:
    made = marks.edited(text, PLUGIN, handlers(count), cdi=cdi)

    assert tomllib.loads(made) == marks.wanted(tomllib.loads(text), PLUGIN, handlers(count), cdi=cdi)
    assert marks.stripped(made) == text
    assert marks.edited(made, PLUGIN, handlers(count), cdi=cdi) == made


@given(files(), st.integers(0, 2), st.integers(0, 2), st.booleans(), st.booleans())
def test_an_edit_of_an_edit_is_as_one_of_the_text_before(text: str, one: int, two: int, on: bool, off: bool) -> None:
    first = marks.edited(text, PLUGIN, handlers(one), cdi=on)

    assert marks.edited(first, PLUGIN, handlers(two), cdi=off) == marks.edited(text, PLUGIN, handlers(two), cdi=off)


@given(files(), st.booleans())
def test_every_line_of_the_text_is_still_there_and_none_is_there_twice(text: str, cdi: bool) -> None:
    """So that no password is in the file more often than somebody wrote it."""
    made = marks.edited(text, PLUGIN, OURS, cdi=cdi)
    block = made[made.index(marks.BEGIN) :]
    for line in (line for line in text.splitlines() if "password" in line):
        assert made.count(line) == text.count(line)
        assert line not in block


@given(files(), st.booleans())
def test_what_is_written_after_ours_stays_whole(text: str, cdi: bool) -> None:
    more = '[timeouts]\n"x" = "5s"\n'
    left = marks.stripped(marks.edited(text, PLUGIN, OURS, cdi=cdi) + more)

    assert left == (text if text.endswith("\n") else text + "\n") + more


def test_a_file_of_our_own_is_told_from_an_empty_one_of_somebody_elses() -> None:
    assert marks.all_ours(marks.whole(3, PLUGIN, OURS, cdi=True))
    assert not marks.all_ours(marks.edited("", PLUGIN, OURS, cdi=True))
    assert not marks.all_ours(marks.whole(3, PLUGIN, OURS, cdi=True) + "[debug]\n")
    assert not marks.all_ours("")
