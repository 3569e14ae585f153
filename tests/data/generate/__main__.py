"""`python -m tests.data.generate <folder of the dumps>` writes the facts anew; `--check` says what would change."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from controllers.bootstrap.health.dcgm_parser import parse
from tests.data.facts import HERE, dumps, read
from tests.data.generate.index import sources
from tests.data.generate.layout import text_of
from tests.data.generate.readers.table import reader
from tests.data.text import exported


def main(words: list[str]) -> int:
    """Write or compare; 1 where a file is not what the generator makes."""
    parser = argparse.ArgumentParser("python -m tests.data.generate", description=__doc__)
    parser.add_argument("folder", type=Path, help="the dumps, with an INDEX.md that names the source of each")
    parser.add_argument("--check", action="store_true", help="change nothing, and say which files would change")
    given = parser.parse_args(words)
    if not (given.folder / "INDEX.md").is_file():
        parser.error(f"{given.folder / 'INDEX.md'} is not there")
    made = generated(given.folder)
    if given.check:
        return check(made, given.folder)
    for name in set(committed()) - set(made):
        (HERE / name).unlink()
    for name, text in made.items():
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_text(text)
    print(f"{len(made)} files, {sum(map(len, made.values())) // 1000} kB, in {HERE}")  # noqa: T201 - a command
    return 0


def generated(folder: Path) -> dict[str, str]:
    """The text of every file, by its name."""
    found = {}
    for dump, source in sources(folder).items():
        if (made := reader(dump)) is not None:
            found[f"{dump}.json"] = text_of({**made(folder / dump), "source": source})
    return found


def check(made: dict[str, str], folder: Path) -> int:
    """Compare with what is committed, and what health reads in an exporter's text with what it reads in ours."""
    there = committed()
    wrong = [
        f"{name} is not what the generator makes"
        for name in sorted(made.keys() | there.keys())
        if made.get(name) != there.get(name)
    ]
    texts = [dump for dump in dumps("dcgm/*") if "families" in read(dump)]
    wrong += [
        f"{dump} does not read as it did where it comes from"
        for dump in texts
        if parse((folder / dump).read_bytes()) != parse(exported(dump))
    ]
    print(*wrong, f"{len(made)} files and {len(texts)} texts compared, {len(wrong)} differ", sep="\n")  # noqa: T201
    return 1 if wrong else 0


def committed() -> dict[str, str]:
    """The text of every file that is there."""
    return {path.relative_to(HERE).as_posix(): path.read_text() for path in HERE.glob("*/*.json")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
