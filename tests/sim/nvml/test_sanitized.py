"""The library under the compiler's sanitizers: garbage as its file, and threads."""

import random
import subprocess
from pathlib import Path

import pytest

from sim.nvml import Config
from sim.nvml.build import LIBRARIES, SOURCES
from tests.sim.nvml.conftest import CATALOGUE

HERE = Path(__file__).parent
FILES = 400
ODD = (
    "mig_mode enabled", "lost", "fallen_off_bus", "unknown *", "compute_instance id=3 uuid=x",
    "gpu_instance id=4294967295 profile=0 start=4294967295", "mig_profile x id=0 size=4294967295 starts=63",
    "mig_profile y slices=8 sm=4294967295 instances=4294967295",
)  # fmt: skip


def built(folder, program, *sanitizers):
    """A program together with the library's sources; skips where the compiler has no such sanitizer."""
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-fno-omit-frame-pointer", f"-fsanitize={','.join(sanitizers)}"]
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    tried = subprocess.run(["cc", *flags, "-o", folder / "probe", probe], capture_output=True, check=False)
    if tried.returncode != 0 or subprocess.run([folder / "probe"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"the compiler's {sanitizers[0]} sanitizer does not work; on Debian: apt-get install gcc libc6-dev")
    made = folder / program
    sources = [HERE / f"{program}.c", *sorted(SOURCES.glob("*.c"))]
    subprocess.run(["cc", *flags, f"-I{SOURCES}", "-o", made, *sources, *LIBRARIES], check=True)
    return made


def spoiled(text, chance):
    """A configuration with a few bytes, words or lines wrong."""
    lines = text.splitlines()
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(lines))
        words = lines[at].split(" ")
        match chance.randrange(7):
            case 0:
                lines[at] = "".join(chr(chance.randrange(1, 256)) for _ in range(chance.randrange(300)))
            case 1:
                words[-1] = chance.choice(["", "-1", "99999999999", "ffff", "=", ",", "\0", "a" * 5000, "0:0:0.0"])
                lines[at] = " ".join(words)
            case 2:
                lines[at:at] = [chance.choice(lines)] * chance.randint(1, 80)
            case 3:
                del lines[at : at + chance.randint(1, 9)]
                lines = lines or ["[card]"]
            case 4:
                chance.shuffle(lines)
            case 5:
                lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
            case 6:
                lines.insert(at, chance.choice(ODD))
    return "\n".join(lines).encode("latin-1", "replace")


def test_garbage_in_the_file_harms_nothing(tmp_path):
    program = built(tmp_path, "garbage", "address", "undefined")
    chance = random.Random(20)
    good = [Config.of(shape).text() for shape in CATALOGUE.shapes.values() if shape.cards]
    h100 = Config.of(CATALOGUE.shape("h100-sxm-8"))
    good.append(h100.partitioned("0000:19:00.0", ("1g.10gb", 0), ("3g.40gb", 4)).text())
    paths = []
    for number in range(FILES):
        paths.append(tmp_path / f"{number}.conf")
        paths[-1].write_bytes(spoiled(chance.choice(good), chance))
    done = subprocess.run(
        [program, *paths],
        capture_output=True,
        check=False,
        env={"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1"},
    )
    errors = done.stderr.decode("utf-8", "replace").splitlines()
    assert done.returncode == 0, "\n".join(errors[-40:])
    assert all(line.startswith("fake NVML: ") for line in errors), errors[-40:]
    served, _, of = done.stdout.decode().split()
    assert (0 < int(served) < FILES, int(of)) == (True, FILES)


def test_threads_and_a_changing_file_do_not_race(tmp_path):
    program = built(tmp_path, "threads", "thread")
    t4 = Config.of(CATALOGUE.shape("t4-4"))
    whole = t4.write(tmp_path / "whole.conf")
    less = t4.without("0000:86:00.0").write(tmp_path / "less.conf")
    now = t4.write(tmp_path / "now.conf")
    done = subprocess.run([program, now, whole, less], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    assert int(done.stdout) > 0
