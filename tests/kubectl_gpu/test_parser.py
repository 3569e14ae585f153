"""What a line means, wherever its options stand."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from controllers.explain.faults import UsageError
from kubectl_gpu.connecting import _impersonation
from kubectl_gpu.parser import build


@pytest.mark.parametrize(
    "line",
    [
        "assign c1 c2 --wait p",
        "assign --wait c1 c2 p",
        "assign c1 -w c2 p",
        "assign c1 c2 p --wait",
        "assign c1 c2 -w p",
    ],
)
def test_options_stand_between_the_words(line: str) -> None:
    args = build().parse_args(line.split())
    assert (args.cards, args.pool, args.wait) == (["c1", "c2"], "p", True)


def test_a_list_takes_its_names_around_an_option() -> None:
    args = build().parse_args(["cards", "a", "-o", "json", "b", "-n", "x"])
    assert (args.names, args.output, args.namespace) == (["a", "b"], "json", "x")
    args = build().parse_args(["-n", "x", "explain", "deployment", "-o", "yaml", "web"])
    assert (args.kind, args.name, args.output, args.namespace) == ("deployment", "web", "yaml", "x")


def test_a_queue_needs_no_pool() -> None:
    assert build().parse_args(["queue"]).pool is None
    args = build().parse_args(["queue", "-n", "x", "training", "-o", "wide"])
    assert (args.pool, args.namespace, args.output) == ("training", "x", "wide")
    args = build().parse_args(["release", "--dry-run", "server", "p", "-n", "x"])
    assert (args.pod, args.namespace, args.dry_run) == ("p", "x", "server")


def test_versions_are_a_table_of_all_that_there_are_unless_something_else_is_asked() -> None:
    args = build().parse_args(["versions"])
    assert (args.skew, args.output, args.selector, args.no_headers) == (False, "table", None, False)
    args = build().parse_args(["versions", "-o", "json", "--skew", "-l", "a=b"])
    assert (args.skew, args.output, args.selector) == (True, "json", "a=b")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("assign --wait", "the following arguments are required: pool. See kubectl gpu assign --help"),
        ("explain pod -o json", "the following arguments are required: name"),
        ("explain -o json nothing x", "invalid choice: 'nothing'"),
        ("queue a -o json b", "unrecognized arguments: b"),
        ("queue -o name", "invalid choice: 'name'"),
        ("versions -o name", "invalid choice: 'name'"),
        ("versions gpu-1", "unrecognized arguments: gpu-1"),
        ("release -n x", "the following arguments are required: pod"),
        ("release a --dry-run=maybe", "invalid choice: 'maybe'"),
        ("cards a --nothing b", "unrecognized arguments: --nothing"),
    ],
)
def test_what_is_mistyped_is_still_said(line: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build().parse_args(line.split())
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_every_group_counts_before_the_command_and_after_it() -> None:
    args = build().parse_args(["--as", "joe", "--as-group", "a", "nodes", "--as-group", "b", "--as-group", "c"])
    headers = CIMultiDict(_impersonation(args))  # as aiohttp keeps them
    assert headers.getall("Impersonate-Group") == ["a", "b", "c"]
    assert headers["Impersonate-User"] == "joe"
    assert list(_impersonation(build().parse_args(["nodes", "--as", "joe"]))) == ["Impersonate-User"]
    with pytest.raises(UsageError, match="--as-group needs --as"):
        _impersonation(build().parse_args(["nodes", "--as-group", "a"]))
