"""The command line."""

from __future__ import annotations

import argparse
import os
from typing import Any

from kubectl_gpu import completion, moving
from kubectl_gpu.output import FORMATS, TABLES

KINDS = ("pod", "card", "node", "pool")
STATES = ("Unassigned", "Reserved", "Assigned", "Faulted")
"""As in `DeviceState`, which takes a third of a second to load with all that stands around it; a test compares them."""
PORT_MAX = 65535
WORKLOADS = ("deployment", "replicaset", "statefulset", "daemonset", "job")
EXAMPLES = """examples:
  kubectl gpu nodes                                   nodes with cards, whether they are ready, and why not
  kubectl gpu cards --state Unassigned                cards that are in no pool
  kubectl gpu cards --pool training -o json           GPUDevices, for a program
  kubectl gpu versions --skew                         what differs from node to node, or from what is wanted
  kubectl gpu driver                                  the drivers that the module brings onto nodes
  kubectl gpu driver main -w                          one of them, live: which nodes are how far, and what keeps them
  kubectl gpu driver pause main --for 8h              no node is begun for 8 hours
  kubectl gpu assign gpu-1-0000-19-00-0 training      one card into a pool (its inventoryID will do, too)
  kubectl gpu assign --node gpu-1 training --wait     all free cards of a node, until they are offered
  kubectl gpu unassign gpu-1-0000-19-00-0             a card out of its pool, when its pods have ended
  kubectl gpu explain pod first -n team-a             why it waits, or where its cards are
  kubectl gpu explain pod first -n team-a --cards     the same for every card and node of its pool
  kubectl gpu explain deployment web -n team-a        why no pod comes of it
  kubectl gpu timeline card gpu-1-0000-19-00-0        who had it when, and what was the matter with it
  kubectl gpu queue training                          who waits for cards of a pool, in which order, and why
  kubectl gpu release train -n team-a                 a pod past the queue; needs the verb release on its pool
  kubectl gpu export > cards.yaml                     what people said of cards: assignments, what is ignored, labels
  kubectl gpu apply -f cards.yaml --wait              onto the same cards again, as they are found
  kubectl gpu backup > gpu.yaml                       pools, drivers, settings, and what people said of cards
  kubectl gpu restore -f gpu.yaml                     what of it would change here; --apply changes it
  kubectl gpu import gpu-operator > module.yaml       what NVIDIA's GPU Operator was asked for, for this module
  kubectl gpu images                                  every image that is run, one a line, for a registry of one's own
  kubectl gpu kueue training                          what Kueue is to be told of a pool: a flavor and a quota, as YAML
  kubectl gpu takeover                                how far each node is from NVIDIA's GPU Operator to this module
  kubectl gpu console                                 all of this as pages in a browser, under your own rights
  source <(kubectl gpu completion bash)               completion of kubectl-gpu; see kubectl gpu completion --help

exit status: 0 done; 1 refused, not found, not allowed, or too late; 2 mistyped; 130 interrupted
"""
COMPLETION = """In bash:  source <(kubectl gpu completion bash)
In zsh:   source <(kubectl gpu completion zsh)
In fish:  kubectl gpu completion fish | source

This completes `kubectl-gpu <TAB>`. `kubectl gpu <TAB>` works by kubectl's own completion
(source <(kubectl completion bash)) where kubectl_complete-gpu is on PATH, as it is beside kubectl-gpu.
"""


class Parser(argparse.ArgumentParser):
    """Says a mistake in one sentence with the way to help; argparse would print the whole usage."""

    def error(self, message: str) -> Any:
        """End with status 2."""
        self.exit(2, f"error: {message}. See {self.prog} --help\n")


class Command(Parser):
    """A command, whose options may stand anywhere between its words, as kubectl's may."""

    _is_mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Options first, then the words that are left. argcomplete takes the parser apart, and needs argparse's own."""
        if self._is_mixing or "_ARGCOMPLETE" in os.environ:
            return super().parse_known_args(args, namespace)
        self._is_mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixing = False


def build() -> argparse.ArgumentParser:
    """The parser with every command; `args.command` is the command's name."""
    parser = Parser(
        prog="kubectl gpu",
        description="GPU cards, nodes and pools of the module gpu-control-plane, and why a pod waits for a card.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_connection("as_group_before")],
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Command)
    _lists(commands)
    _versions(commands)
    _driver(commands)
    _queue(commands)
    _changes(commands)
    _explain(commands)
    _timeline(commands)
    _keeping(commands)
    moving.add(commands, _command)
    _kueue(commands)
    _console(commands)
    shells = _command(commands, "completion", "print a shell's completion script", connection=False, epilog=COMPLETION)
    shells.add_argument("shell", choices=completion.SHELLS)
    return parser


def _command(commands: Any, name: str, what: str, *, connection: bool = True, **more: Any) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_connection()] if connection else [],
        **more,
    )
    return made


def _connection(groups: str = "as_group") -> argparse.ArgumentParser:
    """Options that every command takes, as kubectl does; before the command or after it.

    `groups`: where --as-group is gathered; a command's own would replace those before it.
    """
    # SUPPRESS: a default of the command's parser would undo what stands before the command.
    shared = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = shared.add_argument_group("which cluster, and as whom")
    group.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, then ~/.kube/config")
    _completed(group.add_argument("--context", help="context of the kubeconfig"), completion.contexts)
    _completed(group.add_argument("-n", "--namespace", help="namespace of pods"), completion.namespaces)
    group.add_argument("--as", dest="as_user", metavar="USER", help="act as somebody else")
    as_group = "act as a member of a group; needs --as, and may be given several times"
    group.add_argument("--as-group", dest=groups, action="append", metavar="GROUP", help=as_group)
    return shared


def _completed(action: argparse.Action, completer: Any) -> argparse.Action:
    action.completer = completer  # type: ignore[attr-defined]  # where argcomplete looks for it
    return action


def _lists(commands: Any) -> None:
    for name, noun, completer in (
        ("nodes", "node", completion.nodes),
        ("cards", "card", completion.cards),
        ("pools", "pool", completion.pools),
    ):
        command = _command(commands, name, f"list the {name}")
        _completed(command.add_argument("names", nargs="*", metavar=noun, help="only these"), completer)
        command.add_argument("-l", "--selector", help="labels, as kubectl takes them")
        command.add_argument("-o", "--output", choices=FORMATS, default="table", help="default: table")
        command.add_argument("--no-headers", action="store_true", help="no headings in a table")
        if name == "cards":
            _completed(command.add_argument("--node", help="cards of a node"), completion.nodes)
            _completed(command.add_argument("--pool", help="cards in a pool"), completion.pools)
            command.add_argument("--state", choices=STATES, help="cards in a state")


def _versions(commands: Any) -> None:
    command = _command(commands, "versions", "list which versions the nodes run, from the kernel to the components")
    command.add_argument("--skew", action="store_true", help="only what differs between nodes, or from what is wanted")
    command.add_argument("-l", "--selector", help="labels of GPUNodeInventories, as kubectl takes them")
    command.add_argument("-o", "--output", choices=(*TABLES, "json", "yaml"), default="table", help="default: table")
    command.add_argument("--no-headers", action="store_true", help="no headings in a table")


DRIVER = """driver [status]                   all drivers
driver [status] <driver>          one, with its nodes, its waves, and who waits for whom; -w goes on showing it
driver status <driver> --wait     until all nodes are as asked for; status 1 where a node failed or it halted
driver pause <driver…> --for 8h   begin no node; those that have not given up their driver go back
driver pause --node <node> --until 2026-07-01T06:00:00Z
driver resume <driver…>           end the pause; where it is halted, try again
driver retry <node…>              try nodes again that failed or were put off
driver hand-over <node…> --wait   have nodes without users of their cards, for work of yours; then --back
"""


def _driver(commands: Any) -> None:
    command = _command(
        commands,
        "driver",
        "list the drivers that the module brings onto nodes; with a name that one and its nodes",
        epilog=DRIVER,
    )
    words = command.add_argument(
        "words", nargs="*", metavar="[action] name", help="what is to be done, and with which drivers or nodes"
    )
    _completed(words, completion.drivers)
    command.add_argument("-w", "--watch", action="store_true", help="status: show it until interrupted")
    command.add_argument("--wait", action="store_true", help="status, hand-over: until it is so")
    command.add_argument(
        "--timeout", type=moving.seconds, help="of --wait and --watch, in seconds; for ever without it"
    )
    command.add_argument("--for", dest="length", metavar="TIME", help="pause: how long, such as 8h or 3d")
    command.add_argument("--until", metavar="TIME", help="pause: until when, such as 2026-07-01T06:00:00Z")
    node = command.add_argument("--node", action="append", help="pause, resume: a node; may be given several times")
    _completed(node, completion.nodes)
    command.add_argument("--by", metavar="WHO", help="hand-over: who has the node (kubectl-gpu)")
    command.add_argument("--back", action="store_true", help="hand-over: give the nodes back")
    command.add_argument("-o", "--output", choices=FORMATS, default="table", help="default: table")
    command.add_argument("--no-headers", action="store_true", help="no headings in a table")
    _dry_run(command)


def _queue(commands: Any) -> None:
    command = _command(commands, "queue", "list who waits for cards of a pool, or the pools for which pods wait")
    _completed(command.add_argument("pool", nargs="?", help="the pool"), completion.pools)
    command.add_argument("-o", "--output", choices=(*TABLES, "json", "yaml"), default="table", help="default: table")
    command.add_argument("--no-headers", action="store_true", help="no headings in a table")
    command = _command(commands, "release", "let a pod past its pool's queue, without cards that are reserved for it")
    _completed(command.add_argument("pod", help="a pod that waits"), completion.waiting)
    _dry_run(command)
    command.add_argument("-o", "--output", choices=("table", "json", "yaml", "name"), default="table")


def _changes(commands: Any) -> None:
    for name, what in (
        ("assign", "put cards into a pool"),
        ("unassign", "take cards out of their pools; pods that have them keep them until they end"),
    ):
        command = _command(commands, name, what)
        cards = command.add_argument(
            "cards", nargs="*", metavar="card", help="names or inventoryIDs, as kubectl gpu cards -o wide shows them"
        )
        _completed(cards, completion.cards)
        if name == "assign":
            _completed(command.add_argument("pool", help="the pool, as the last word"), completion.pools)
        every = "every card of a node that is in no pool" if name == "assign" else "every card of a node"
        _completed(command.add_argument("--node", help=every), completion.nodes)
        _dry_run(command)
        command.add_argument("-w", "--wait", action="store_true", help="until the cards are there; not a moment else")
        command.add_argument("--timeout", type=moving.seconds, default=60.0, help="how long to wait, in seconds (60)")
        command.add_argument("-o", "--output", choices=("table", "json", "yaml", "name"), default="table")


def _dry_run(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--dry-run",
        nargs="?",
        const="client",
        default="none",
        choices=("none", "client", "server"),
        help="client: only say what would be done; server: ask the webhook, too",
    )


def _keeping(commands: Any) -> None:
    command = _command(commands, "export", "print what people said of cards: assignments, what is ignored, labels")
    _completed(command.add_argument("names", nargs="*", metavar="card", help="only these"), completion.cards)
    _completed(command.add_argument("--node", help="cards of a node"), completion.nodes)
    command.add_argument("-l", "--selector", help="labels, as kubectl takes them")
    command.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="default: yaml")
    command = _command(commands, "apply", "say of the same cards what a file of kubectl gpu export says; makes no card")
    command.add_argument("-f", "--filename", required=True, metavar="FILE", help="the file; - for standard input")
    _dry_run(command)
    command.add_argument("-w", "--wait", action="store_true", help="try again until all is done; not a moment else")
    command.add_argument("--timeout", type=moving.seconds, default=60.0, help="how long to wait, in seconds (60)")
    command.add_argument("-o", "--output", choices=("table", "json", "yaml", "name"), default="table")


def _kueue(commands: Any) -> None:
    command = _command(
        commands, "kueue", "print a ResourceFlavor and a ClusterQueue of Kueue for a pool; writes nothing"
    )
    _completed(command.add_argument("pool", help="the pool"), completion.pools)
    command.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="default: yaml")


CONSOLE = """Serves on loopback under your own kubeconfig until it is interrupted, and opens a browser: fleet, pools,
pods and cards as pages that follow the cluster. It sees what you may see; cards are assigned there with your rights.
"""


def _console(commands: Any) -> None:
    command = _command(commands, "console", "show the cluster's cards in a browser", epilog=CONSOLE)
    command.add_argument("--port", type=_port, default=0, help="port to serve on (the system chooses)")
    about = "address to serve on, of this machine alone (127.0.0.1)"
    command.add_argument("--address", type=_loopback, default="127.0.0.1", help=about)
    command.add_argument("--no-browser", action="store_true", help="only print the address")


def _explain(commands: Any) -> None:
    command = _command(commands, "explain", "why a pod waits or where its cards are; a card, a node, a pool as well")
    command.add_argument("kind", choices=(*KINDS, *WORKLOADS), metavar="kind", help=", ".join((*KINDS, *WORKLOADS)))
    _completed(command.add_argument("name", help="its name; of a card, its inventoryID will do"), completion.explained)
    command.add_argument("--cards", action="store_true", help="of a pod: every node and card of its pool, and why not")
    command.add_argument("-o", "--output", choices=("text", "json", "yaml"), default="text", help="default: text")


def _timeline(commands: Any) -> None:
    command = _command(commands, "timeline", "list who had a card and when, and what was the matter with it")
    command.add_argument("kind", choices=("card",), metavar="kind", help="card")
    _completed(command.add_argument("name", help="its name or inventoryID"), completion.cards)
    command.add_argument("-o", "--output", choices=(*TABLES, "json", "yaml"), default="table", help="default: table")
    command.add_argument("--no-headers", action="store_true", help="no headings in a table")


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) <= PORT_MAX:
        return int(text)
    msg = f"a port is a number from 0 to {PORT_MAX}, not {text!r}"
    raise argparse.ArgumentTypeError(msg)


def _loopback(text: str) -> str:
    """An address that no other machine reaches: pages show what this person may see, to whoever has the address."""
    import ipaddress

    try:
        if ipaddress.ip_address(text).is_loopback:
            return text
    except ValueError:
        pass
    msg = f"an address of this machine alone, such as 127.0.0.1 or ::1, not {text!r}: others would reach the pages"
    raise argparse.ArgumentTypeError(msg)
