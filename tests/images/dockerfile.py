"""Reads a Dockerfile into its stages, as far as the tests ask."""

import re
import shlex
from dataclasses import dataclass, field


@dataclass
class Stage:
    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def of(self, instruction: str) -> list[str]:
        return [text for name, text in self.steps if name == instruction]


def stages(text: str) -> list[Stage]:
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    found: list[Stage] = [Stage("")]
    for line in filter(None, (line.strip() for line in joined.splitlines())):
        name, _, rest = line.partition(" ")
        if name.upper() == "FROM":
            found.append(Stage(rest.split(" AS ")[0].strip()))
        else:
            found[-1].steps.append((name.upper(), rest.strip()))
    return found


def sources(copy: str) -> list[str]:
    """What a COPY takes from the build's context; nothing where it copies from another stage."""
    words = shlex.split(copy)
    return [] if any(word.startswith("--from") for word in words) else [w for w in words[:-1] if not w.startswith("--")]


def target(copy: str) -> str:
    return shlex.split(copy)[-1]
