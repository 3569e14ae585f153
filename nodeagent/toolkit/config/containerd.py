"""containerd's files: which to change so that it has NVIDIA's handlers, or no longer has them. Pure.

| node | where the handlers are told | who takes it up |
|---|---|---|
| containerd 1.x | in the file whose CRI settings are in force: an import replaces a plugin's whole | a restart |
| containerd 2, with an import of `/etc/containerd/conf.d/*.toml` | a drop-in of ours there | a restart |
| containerd 2 without | in the main file | a restart |
| Deckhouse's | a drop-in of ours in `conf.d` or, for ContainerdV2, `conf2.d` | bashible merges it, and restarts |

What is written has the two handlers, and CDI where it is off. What the node says about its own handler of runc is
followed (`effective.alike`); nothing about registries is ever read out of a file.
"""

from __future__ import annotations

from posixpath import join
from typing import TYPE_CHECKING, Any

from nodeagent.toolkit.config import effective, marks, sources
from nodeagent.toolkit.config.effective import table
from nodeagent.toolkit.config.marks import Unforeseen
from nodeagent.toolkit.config.plan import FOLDER, HANDLERS, PROGRAM, Change, Plan, Refused, somebody_elses
from nodeagent.toolkit.config.sources import CONF2_D, CONF_D, DECKHOUSE, DROP_IN, FORMER, MERGING, SPLIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nodeagent.toolkit.config.effective import Handler
    from nodeagent.toolkit.config.sources import Node


def install(node: Node) -> Plan:
    """Make the handlers known; raises Refused."""
    if effective.disabled(node.effective):
        raise Refused(f"{node.main} disables containerd's CRI plugin, so kubelet cannot be served by it: enable it")
    if effective.version(node.effective) > effective.NEWEST:
        raise Refused(f"containerd's configuration has a version above {effective.NEWEST}: add the handlers by hand")
    if foreign := somebody_elses(effective.handlers(node.effective), "'runc'"):
        return Plan(tuple(_removals(node)), foreign=foreign)
    return _deckhouse(node) if node.deckhouse else _own(node)


def remove(node: Node) -> Plan:
    """Take everything of ours away; the rest is left as it is found. Raises Refused where the rest needs it."""
    done = Plan(tuple(_removals(node)))
    if done.changes and (named := _default_of_ours(node)):
        raise Refused(f"{named} is containerd's default_runtime_name, and would be gone: name another, such as runc")
    return done


def _default_of_ours(node: Node) -> str:
    """Our handler that somebody has made the default one; containerd serves no pod where that is not there."""
    defaults, known = set[str](), set[str]()
    for path, content in _without_former(node).items():
        try:
            parsed = sources.parsed(content, path)
        except Refused:
            continue
        defaults.add(str(table(effective.cri(parsed), "containerd").get("default_runtime_name")))
        known.update(effective.handlers(parsed))
    return next((name for name in HANDLERS if name in defaults - known), "")


def _handlers(parsed: Mapping[str, Any]) -> tuple[Handler, ...]:
    try:
        return tuple(effective.alike(parsed, name, join(FOLDER, file)) for name, file in HANDLERS.items())
    except KeyError:
        raise Refused("containerd has no handler runc, nor a default one, of type io.containerd.runc.v2") from None


def _own(node: Node) -> Plan:
    kept = _without_former(node)
    target = sources.in_force(node, kept)
    said = sources.parsed(kept[target], target) if target in kept else {}
    number = effective.version(said) if target in kept else (2 if node.release[0] < MERGING else 3)
    cdi = _cdi(node)
    told = sources.handlers_of_others(node, kept, target)
    # Our former drop-in hides what the file says since; it goes, and with it a copy that may be old.
    handlers = _handlers(said if FORMER in node.files and FORMER not in kept and told else node.effective)
    # containerd's own handlers are no longer there once a file tells of another: 1.7 would be left without runc.
    own = [effective.as_is(node.effective, name) for name in effective.handlers(node.effective) if name not in HANDLERS]
    written = [one for one in (*own, *handlers) if one.name not in told]
    if sources.takes_drop_in(node, kept):
        target = f"{CONF_D}/{DROP_IN}"
        text = marks.whole(number, effective.plugin(number), written, cdi=cdi)
    elif target in kept:
        text = _edited(target, sources.text(kept[target], target), effective.plugin(number), written, cdi=cdi)
    else:
        text = marks.whole(number, effective.plugin(number), written, cdi=cdi)
    # What another file tells of under these names is its writer's to put into force.
    ours = tuple(one for one in handlers if one.name not in told)
    return Plan(tuple(_changes(node, {target: text.encode()})), ours, cdi=cdi)


def _deckhouse(node: Node) -> Plan:
    if DECKHOUSE not in node.files:
        raise Refused(f"bashible manages this node, and {DECKHOUSE} is not there: wait until it has made it")
    number = effective.version(sources.parsed(node.files[DECKHOUSE], DECKHOUSE))
    cdi = _cdi(node) and effective.cdi(sources.parsed(node.files[DECKHOUSE], DECKHOUSE)) is not True
    place = f"{CONF2_D if number >= SPLIT else CONF_D}/{DROP_IN}"
    handlers = _handlers(node.effective)
    # No version of its own: the merged file has Deckhouse's.
    text = marks.whole(None, effective.plugin(number), handlers, cdi=cdi)
    return Plan(tuple(_changes(node, {place: text.encode()})), handlers, cdi=cdi, awaits_bashible=True)


def _changes(node: Node, wanted: Mapping[str, bytes]) -> Iterator[Change]:
    """Those that make the wanted files, and take ours from all others."""
    for path, after in wanted.items():
        if node.files.get(path) != after:
            yield Change(path, node.files.get(path), after)
    yield from (change for change in _removals(node) if change.path not in wanted)


def _removals(node: Node) -> Iterator[Change]:
    for path, content in sorted(node.files.items()):
        after = _clean(node, path, content)
        # Bashible's own file has what it merged, marks and all, until it is made anew.
        if after != content and not (node.deckhouse and path == node.main):
            yield Change(path, content, after)


def _without_former(node: Node) -> dict[str, bytes]:
    """The files as they are without us."""
    kept = ((path, _clean(node, path, content)) for path, content in node.files.items())
    return {path: content for path, content in kept if content is not None}


def _clean(node: Node, path: str, content: bytes) -> bytes | None:
    """A file without what is ours; None where all of it is."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return content
    if path == FORMER and not node.elsewhere and _is_former(text):
        return None
    return None if marks.all_ours(text) else marks.stripped(text).encode()


def _is_former(text: str) -> bool:
    """Whether NVIDIA's installer may have written the drop-in for us: for us it made no handler the default."""
    try:
        parsed = marks.parse(text)
    except Unforeseen:
        return False
    known = effective.handlers(parsed)
    default = table(effective.cri(parsed), "containerd").get("default_runtime_name")
    return known.get("nvidia", "") == join(FOLDER, PROGRAM) and default != "nvidia"


def _cdi(node: Node) -> bool:
    """Whether we are to switch CDI on: it is off, or on by us. Else the second look would undo the first one's work."""
    told = effective.cdi(node.effective)
    ours = any(marks.switches_cdi(content.decode(errors="replace")) for content in node.files.values())
    # With the former drop-in goes what it switched on.
    former = FORMER in node.files and FORMER not in _without_former(node)
    # Where it is not told there is no such switch: in 1.6 no CDI, in 2.4 nothing else.
    return told is False or (told is True and (ours or former))


def _edited(path: str, text: str, plugin: str, handlers: Sequence[Handler], *, cdi: bool) -> str:
    try:
        return marks.edited(text, plugin, handlers, cdi=cdi)
    except Unforeseen as error:
        raise Refused(f"{path} is left as it is: {error}") from None


def is_ours(path: tuple[str, ...]) -> bool:
    """Whether a value of a dump is one that we may change."""
    match path:
        case ("imports", *_) | ("plugins", _, "enable_cdi"):
            return True
        case ("plugins", _, "containerd", "runtimes", name, *_):
            return name in HANDLERS
    return False
