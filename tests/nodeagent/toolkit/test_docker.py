"""Docker's daemon.json: handlers and CDI merged in as text, every other byte as it was, and all of it taken out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.toolkit.config import docker
from nodeagent.toolkit.config.docker import DockerNode
from nodeagent.toolkit.config.plan import FOLDER, HANDLERS, Refused

PASSWORD = "s3cret-of-the-proxy"
PROGRAMS = {name: f"{FOLDER}/{file}" for name, file in HANDLERS.items()}
CASES: dict[str, str | None] = {
    "absent": None,
    "empty": "",
    "no-settings": "{}",
    "no-settings-and-a-line": "{ }\n",
    "kubeadm": '{\n  "exec-opts": ["native.cgroupdriver=systemd"],\n  "log-driver": "json-file",\n'
    '  "log-opts": {\n    "max-size": "100m"\n  },\n  "storage-driver": "overlay2"\n}\n',
    "minified": '{"live-restore":true,"registry-mirrors":["https://mirror.example.com"]}',
    "proxy-with-a-password": '{"proxies": {"http-proxy": "http://node:' + PASSWORD + '@proxy.example.com:3128"}}\n',
    "others-runtimes": '{\n\t"default-runtime": "kata",\n'
    '\t"runtimes": {\n\t\t"kata": {"path": "/usr/bin/kata"}\n\t}\n}\n',
    "no-runtimes-of-others": '{"runtimes": {}, "debug": true}\n',
    "features": '{"features": {"buildkit": true}, "data-root": "/data/docker"}',
    "features-with-cdi": '{"features": {"cdi": true}}',
    "crlf": '{\r\n  "debug": false\r\n}\r\n',
    "escapes": '{"labels": ["a=\\"b\\"", "\\u0072untimes"], "bip": "10.0.0.1/24"}',
    "braces-in-texts": '{"labels": ["}, {", "\\"runtimes\\": {"], "tls": false}\n',
    "two-spaces": '{"a":1, "features":  {"buildkit":true}, "debug":  true}',
    "two-spaces-elsewhere": '{"data-root":  "/data",  "log-opts":  {}}\n',
    "deep": '{"a": {"runtimes": {"nvidia": {"path": "x"}}}, "runtimes": {"crun": {"path": "/usr/bin/crun"}}}',
}


def node(text: str | None, *, cdi: bool = False, release: tuple[int, int] = (28, 1), **more: object) -> DockerNode:
    content = None if text is None else text.encode()
    return DockerNode(release, content, {}, cdi=cdi, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("cdi", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_ours_is_added_nothing_else_changes_and_it_goes_to_the_byte(name: str, cdi: bool) -> None:
    text = CASES[name]
    done = docker.install(node(text, cdi=cdi))
    after = done.changes[0].after
    assert after is not None
    before, then = json.loads(text or "{}"), json.loads(after)

    assert {one: entry["path"] for one, entry in then["runtimes"].items() if one in PROGRAMS} == PROGRAMS
    assert cdi or then["features"]["cdi"] is True
    assert {one: then["runtimes"][one] for one in before.get("runtimes", {})} == before.get("runtimes", {})
    assert {key: then[key] for key in before if key not in {"runtimes", "features"}} == {
        key: before[key] for key in before if key not in {"runtimes", "features"}
    }
    assert after.count(PASSWORD.encode()) == (text or "").count(PASSWORD)
    again = docker.install(node(after.decode(), cdi=cdi))
    assert again.changes == ()
    (gone,) = docker.remove(node(after.decode())).changes
    assert gone.after == (None if text is None else text.encode())


@pytest.mark.parametrize("name", CASES)
def test_a_file_that_was_never_ours_stays_as_it_is(name: str) -> None:
    assert docker.remove(node(CASES[name])).changes == ()


TWO_SPACES = (
    '{"a":1, "features":  {"buildkit":true, "cdi":  true}}',
    '{"features":  {"cdi":  true}}',
    '{"features":  {}, "runtimes":  {}}',
    '{"runtimes":  {"kata":  {"path":  "/usr/bin/kata"}}, "features": {"cdi":  true}}',
)


@pytest.mark.parametrize("text", TWO_SPACES)
@pytest.mark.parametrize("cdi", [False, True])
def test_two_spaces_of_other_peoples_are_no_mark(text: str, cdi: bool) -> None:
    """A node that leaves, whatever its runtime is, is rid of ours alone."""
    assert docker.remove(node(text, cdi=cdi)).changes == ()
    with pytest.raises(Refused, match="which is our own mark: write one"):
        docker.install(node(text, cdi=cdi))


def test_cdi_that_is_on_by_us_stays_once_the_daemon_has_taken_it_up() -> None:
    after = docker.install(node("{}")).changes[0].after or b""

    assert docker.install(node(after.decode(), cdi=True)).changes == ()


def test_a_file_that_a_formatter_has_written_anew_loses_ours_all_the_same() -> None:
    after = json.loads(docker.install(node(CASES["others-runtimes"])).changes[0].after or b"")
    text = json.dumps(after, indent=4)
    (gone,) = docker.remove(node(text)).changes

    assert json.loads(gone.after or b"")["runtimes"] == {"kata": {"path": "/usr/bin/kata"}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"debug": true,}', "it is not JSON"),
        ('// a comment\n{"debug": true}', "it is not JSON"),
        (f'{{"proxies": {{"http-proxy": "{PASSWORD}}}', "it is not JSON"),
        ('{"debug": true, "debug": false}', "it is not JSON"),
        ("[]", "no JSON object"),
        (" \n", "it is blank"),
        ('{"runtimes": []}', "runtimes is no object"),
        ('{"features": {"cdi": false}}', "switched CDI off"),
        ('{"runtimes": {"nvidia": {"path": "/usr/bin/other"}}}', "a handler nvidia runs '/usr/bin/other'"),
        ("\ufeff{}", "it is not JSON"),
    ],
)
def test_what_is_not_foreseen_is_told_and_nothing_is_written(text: str, says: str) -> None:
    with pytest.raises(Refused, match=says) as told:
        docker.install(node(text))
    assert PASSWORD not in str(told.value)


def test_what_is_not_text_is_left_alone() -> None:
    with pytest.raises(Refused, match="not UTF-8"):
        docker.install(DockerNode((28, 1), b"\xff", {}, cdi=False))


def test_somebody_elses_handler_stands_and_nothing_is_written() -> None:
    done = docker.install(node('{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}'))

    assert (done.changes, done.foreign) == ((), "nvidia-container-runtime")


def test_gpu_operators_handler_of_the_same_program_is_none_of_ours() -> None:
    text = f'{{"runtimes": {{"nvidia": {{"args": [], "path": "{PROGRAMS["nvidia"]}"}}}}}}'

    assert docker.install(node(text)) == docker.Plan(foreign=PROGRAMS["nvidia"])
    assert docker.remove(node(text)).changes == ()


def test_a_docker_without_cdi_is_told_and_one_with_flags_is_not_made_unable_to_start() -> None:
    with pytest.raises(Refused, match=r"Docker 20\.10 knows no CDI"):
        docker.install(node("{}", release=(20, 10)))
    with pytest.raises(Refused, match="runtimes on its command line"):
        docker.install(node("{}", flags=frozenset({"runtimes"})))


def test_a_handler_that_is_the_default_one_is_not_taken_away() -> None:
    after = (docker.install(node('{"default-runtime": "nvidia"}')).changes[0].after or b"").decode()

    with pytest.raises(Refused, match="default-runtime, and would be gone"):
        docker.remove(node(after))


KEYS = st.sampled_from(["runtimes", "features", "debug", "labels", "a"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(KEYS, VALUES, max_size=4),
    st.sampled_from([None, 1, "\t"]),
    st.sampled_from([":", ": ", ":  "]),
    st.booleans(),
)
def test_any_object_comes_back_to_the_byte_or_is_left_alone(
    made: dict[str, object], indent: object, colon: str, cdi: bool
) -> None:
    text = json.dumps(made, indent=indent, separators=(",", colon))  # type: ignore[arg-type]
    assert docker.remove(node(text)).changes == ()
    try:
        done = docker.install(node(text, cdi=cdi))
    except Refused:
        return
    (gone,) = docker.remove(node((done.changes[0].after or b"").decode())).changes
    assert gone.after == text.encode()
