"""Machines, which are network namespaces with one interface each, all on one switch, and rules for their links."""

import json
import select
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from replog.chaos.switch import MAC_PREFIX, MTU, Rule

OBSERVER = "observer"  # the run's own machine; no rule ever touches it
TIMEOUT_S = 30.0
NAMESPACES = "/run/netns"

Ends = tuple[str, str]  # the sending and the receiving machine


class Network:
    """The machines and the switch. Nothing is taken down, since all is in the run's namespaces, which end with it.

    Use it from one thread: every order is answered before the next.
    """

    def __init__(self, machines: Sequence[str], seed: int) -> None:
        """Start the switch, and connect `machines` and the observer to it."""
        self._ports = {name: number for number, name in enumerate([*machines, OBSERVER], 1)}
        self._switch = subprocess.Popen(
            [sys.executable, "-P", "-m", "replog.chaos.switch", str(seed), str(len(self._ports))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._expect("ready")
        for name, port in self._ports.items():
            self._plug_in(name, port)

    def _plug_in(self, name: str, port: int) -> None:
        where: list[str] = []
        if name != OBSERVER:
            _run("ip", "netns", "add", name)
            _run("ip", "link", "set", f"tap{port}", "netns", name)
            where = ["-n", name]
        device = f"dev tap{port}"
        commands = [
            "link set lo up",
            f"link set {device} address {_mac(port)} mtu {MTU} arp off",
            f"address add {self.address(name)}/24 {device}",
            f"link set {device} up",
        ]
        # Otherwise an ARP request would fail in a cut, and senders would notice a silence that they must not notice.
        commands += [
            f"neighbour add {self.address(other)} lladdr {_mac(number)} nud permanent {device}"
            for other, number in self._ports.items()
            if other != name
        ]
        _run("ip", *where, "-batch", "-", stdin="\n".join(commands))

    def address(self, name: str) -> str:
        return f"10.77.0.{self._ports[name]}"

    @staticmethod
    def enter(name: str) -> list[str]:
        """Return the words before a command that make it run on that machine."""
        nsenter = shutil.which("nsenter")
        assert nsenter is not None
        return [nsenter, f"--net={NAMESPACES}/{name}"]

    def order(self, links: Iterable[Ends], rule: Rule | None) -> None:
        """Apply a rule to links from now on; each direction is a link. None: no rule."""
        ports = [[self._ports[source], self._ports[target]] for source, target in links]
        assert self._switch.stdin is not None
        order = {"links": ports} | ({"rule": asdict(rule)} if rule is not None else {})
        self._switch.stdin.write(json.dumps(order).encode() + b"\n")
        self._expect("done")

    def mend(self) -> None:
        """Take the rules of all links away."""
        self.order([(a, b) for a in self._ports for b in self._ports if a != b], None)

    def _expect(self, word: str) -> None:
        assert self._switch.stdout is not None
        answered, _, _ = select.select([self._switch.stdout], [], [], TIMEOUT_S)
        answer = self._switch.stdout.readline().decode().strip() if answered else "nothing"
        assert answer == word, f"the switch says {answer!r}, not {word!r}"


def both_ways(machines: Iterable[str], others: Iterable[str]) -> list[Ends]:
    """Return every link between one of `machines` and one of `others`, in both directions."""
    others = list(others)
    pairs = [(a, b) for a in machines for b in others if a != b]
    return [*pairs, *((b, a) for a, b in pairs)]


def _mac(port: int) -> str:
    return ":".join(f"{byte:02x}" for byte in (*MAC_PREFIX, port))


def _run(*command: str, stdin: str = "") -> None:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
