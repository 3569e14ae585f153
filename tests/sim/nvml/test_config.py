"""The file: mistakes are told with their place, and a machine is written as the catalogue has it."""

import os
import subprocess

import pytest

from sim.nvml import Config, build
from sim.nvml.__main__ import main
from tests.sim.nvml.conftest import CATALOGUE
from tools.errors import UserError

CARD = "[card]\naddress 0000:19:00.0\nuuid GPU-a\n"


MISTAKES = [
    ("speed 9\n", 1, "unknown key 'speed' of the system"),
    (f"{CARD}speed 9\n", 4, "unknown key 'speed' of a card"),
    ("[cards]\n", 1, "found '[cards]', expected [card]"),
    (f"{CARD}minor -3\n", 4, "found '-3', expected a number"),
    (f"{CARD}minor\n", 4, "found '', expected a number"),
    (f"{CARD}device 0x2330\n", 4, "found '0x2330', expected a hexadecimal number"),
    (f"{CARD}device 12330\n", 4, "expected a hexadecimal number up to 65535"),
    (f"{CARD}compute 9\n", 4, "expected two numbers with a dot"),
    (f"{CARD}mig_mode on\n", 4, "mig_mode: found 'on', expected enabled or disabled"),
    (f"{CARD}lost today\n", 4, "lost: found 'today', expected nothing after it"),
    (f"{CARD}name {'x' * 96}\n", 4, "found 96 characters, expected 1 to 95"),
    (f"{CARD}address 19\n", 4, "found '19', expected a PCI address"),
    (f"{CARD}gpu_instance id=1 profile=19\n", 4, "profile 19 of the instance is none"),
    (f"{CARD}compute_instance id=1\n", 4, "has no uuid"),
    (f"{CARD}mig_profile 1g.5gb starts=0,,2\n", 4, "found ''"),
    (f"{CARD}mig_profile 1g.5gb size\n", 4, "found 'size', expected name=value"),
    (f"{CARD}nvlink link=0 state=on\n", 4, "expected up or down"),
    (f"{CARD}nvlink speed=9\n", 4, "unknown name 'speed'"),
    (f"{CARD}hang nvmlDeviceGetName\n", 4, "expected seconds"),
    (f"{CARD}hang nvmlDeviceGetName 1e99\n", 4, "expected seconds"),
    (f"{CARD}unknown\n", 4, "found 0 characters"),
    (f"{CARD}not_supported f 3\n", 4, "expected nothing after the function"),
    (CARD + "lost\nunknown f\n" * 33, 69, "found more than 32 lines"),
    ("[card]\naddress 0:1:0.0\n", 2, "card 0 has no uuid"),
    ("[card]\nuuid GPU-a\n", 2, "card 0 has no address"),
    (CARD * 2, 6, "two cards have one address"),
    ("[card]\n" * 65, 65, "found more than 64 cards"),
    ("driver_version 1\0 2\n", 1, "found a NUL byte"),
]


@pytest.mark.parametrize(("text", "line", "told"), MISTAKES, ids=[told for *_, told in MISTAKES])
def test_a_mistake_is_told_with_its_line(ask, text, line, told):
    out, errors = ask(text, "out = ask(n.nvmlInit)", init=False)
    assert out == {"error": 999}
    assert len(errors.splitlines()) == 1
    assert f"cards.conf:{line}: " in errors
    assert told in errors


def test_without_a_file_there_is_no_driver(ask, tmp_path):
    code = "config.unlink()\nout = [ask(n.nvmlInit)]\ndel os.environ['FAKE_NVML_CONFIG']\nout.append(ask(n.nvmlInit))"
    out, errors = ask("", code, init=False)
    assert out == [{"error": 9}] * 2
    assert errors.splitlines() == ["fake NVML: no such file: no driver", "fake NVML: FAKE_NVML_CONFIG names no file"]


def test_an_empty_file_is_a_driver_without_cards(told):
    assert told("\n# nothing\n", "out = [n.nvmlDeviceGetCount(), n.nvmlSystemGetDriverVersion()]") == [0, ""]


def test_cards_are_counted_by_address(told):
    text = "".join(f"[card]\naddress {a}\nuuid {a}\n" for a in ("0001:01:00.0", "0000:af:00.0", "0000:0A:00.0"))
    assert told(text, "out = everywhere(n.nvmlDeviceGetUUID)") == ["0000:0A:00.0", "0000:af:00.0", "0001:01:00.0"]


def test_lines_may_be_indented_and_end_as_on_windows(told):
    assert told("[card]\r\n\taddress  0:1:0.0 \r\n  uuid GPU a\r\n", "out = everywhere(n.nvmlDeviceGetUUID)") == [
        "GPU a"
    ]


def test_changed_copies(h100):
    first, *others = h100.cards
    assert "lost" in h100.card(first, "lost").cards[first]
    assert "lost" not in h100.cards[first]
    assert list(h100.without(first).cards) == others
    with pytest.raises(UserError, match=r"no card '0000:00:00\.0'"):
        h100.card("0000:00:00.0", "lost")
    with pytest.raises(UserError, match="no MIG profile '9g"):
        h100.partitioned(first, ("9g.9gb", 0))


def test_writing_replaces_the_file_whole(h100, tmp_path):
    path = tmp_path / "cards.conf"
    path.write_text("old")
    inode = path.stat().st_ino
    assert h100.write(path) == path
    assert (path.read_text(), path.stat().st_ino != inode) == (h100.text(), True)
    assert list(tmp_path.iterdir()) == [path]


def test_the_command_line(capsys):
    assert main(["build"]) == 0
    assert capsys.readouterr().out == f"{build()}\n"
    assert main(["config", "t4-4", "--node", "n1"]) == 0
    assert capsys.readouterr().out == Config.of(CATALOGUE.shape("t4-4"), "n1").text()
    assert main(["config", "k80"]) == 1
    assert "expected: one of a100-sxm-8" in capsys.readouterr().err


def test_building_without_a_compiler_says_what_installs_one(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with pytest.raises(UserError, match=r"no C compiler 'no-such-compiler'(.|\n)*apt-get install gcc libc6-dev"):
        build()
    monkeypatch.setenv("CC", "false")
    with pytest.raises(UserError, match="false does not compile"):
        build()
    assert list((tmp_path / "gpu-control-plane" / "programs").iterdir()) == []


def test_what_is_built_stays(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = build()
    made = first.stat().st_mtime_ns
    assert (build(), first.stat().st_mtime_ns) == (first, made)
    other = build(extra=("-DOTHER",))
    assert other != first
    assert first.is_file()


def test_a_program_in_c_loads_it_too(h100, tmp_path):
    source = tmp_path / "count.c"
    source.write_text(
        "#include <stdio.h>\nint nvmlInit_v2(void);int nvmlDeviceGetCount_v2(unsigned *);"
        'int main(void){unsigned n=0;nvmlInit_v2();nvmlDeviceGetCount_v2(&n);printf("%u\\n",n);return 0;}'
    )
    library = build()
    command = ["cc", "-o", tmp_path / "count", source, library]
    subprocess.run(command, check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    environment["FAKE_NVML_CONFIG"] = str(h100.write(tmp_path / "cards.conf"))
    done = subprocess.run([tmp_path / "count"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "8\n"
