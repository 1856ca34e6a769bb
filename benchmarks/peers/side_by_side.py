"""Measures replog, Apache Kafka and raw sockets: acks of all, three replicas, six partitions, in rounds.

In each round every system has a turn, with fresh data, its default settings and a client in a separate process: it
warms up first, and then runs each row of the table on a new topic. The first system changes from round to round.
Figures are medians, with the lowest and the highest; docs/performance.md says more. Run it with `make bench`.
"""

import asyncio
from collections.abc import Mapping, Sequence

from benchmarks.harness import Figures, Note, benchmark_parser, fill_page_cache, homes, parsed, precise_loop, publish
from benchmarks.peers.kafka import KafkaPeer
from benchmarks.peers.peer import CannotRun
from benchmarks.peers.raw import RawPeer
from benchmarks.peers.replog import OtherReplogPeer, ReplogPeer, SecureReplogPeer
from benchmarks.peers.rows import (
    BULK,
    CONSUMED,
    KIB,
    LARGE,
    MEASURED,
    PACED_BY_DEFAULTS,
    Kind,
    Peer,
    Produce,
    Rounds,
    Row,
    resolved,
    shown,
)

PEERS: dict[Kind, Sequence[Row]] = {
    ReplogPeer: (*MEASURED, BULK),
    OtherReplogPeer: (*MEASURED, BULK),
    SecureReplogPeer: (Produce(KIB, LARGE), *PACED_BY_DEFAULTS, CONSUMED),
    KafkaPeer: MEASURED,
    RawPeer: (BULK, *PACED_BY_DEFAULTS),
}
TURN_S = 900.0
_WARM_UP_PACED = 1000  # records, within a second


async def turn(peer: Peer, rows: Sequence[Row], seconds: float, note: Note) -> dict[str, Figures]:
    """Return the figures of the system's rows, by their keys. Raises CannotRun, or TimeoutError after `TURN_S`."""
    measured: dict[Row, Figures] = {}

    async def fill() -> None:
        if seconds >= 1:  # a shorter row uses little memory
            await asyncio.to_thread(fill_page_cache, note)

    async with asyncio.timeout(TURN_S), peer.running():
        await fill()
        await _warm_up(peer, consuming=CONSUMED in rows)
        for row in dict.fromkeys(resolved(row, peer.defaults) for row in rows):
            topic = f"row-{len(measured)}"
            await peer.make(topic)
            await fill()
            measured[row] = await row.run(peer, topic, seconds)
            await peer.end(topic)
            summary = (f"{name} {value:.4g}" for name, value in measured[row].items() if isinstance(value, float))
            note(f"{peer.name}, {row.key}: {', '.join(summary)}")
    return {row.key: measured[resolved(row, peer.defaults)] for row in rows}


async def _warm_up(peer: Peer, *, consuming: bool) -> None:
    records = round(peer.warm_up_mb * 1e6 / KIB)
    await peer.make("warm-up")
    await peer.produce("warm-up", KIB, records, LARGE)
    if consuming:
        await peer.consume("warm-up", KIB, records)
    await peer.pace("warm-up", KIB, _WARM_UP_PACED, _WARM_UP_PACED, peer.defaults)
    await peer.end("warm-up")


def rounds_of(peers: Mapping[Kind, Sequence[Row]], rounds: int, seconds: float, note: Note) -> tuple[Rounds, list[str]]:
    """Run all systems in turn, and return report and errors; one that cannot run, or a failed turn, is left out."""
    kinds = list(peers)
    report: Rounds = {kind.name: [] for kind in kinds}
    wrong: list[str] = []
    for number in range(rounds):
        for kind in kinds[number % len(kinds) :] + kinds[: number % len(kinds)]:
            if kind.name not in report:
                continue
            note(f"round {number + 1} of {rounds}: {kind.name}")
            with homes() as home, asyncio.Runner(loop_factory=precise_loop) as runner:
                try:
                    figures = runner.run(turn(kind(home / "data"), peers[kind], seconds, note))
                except CannotRun as error:
                    wrong.append(f"Without {kind.name}: {error}")
                    del report[kind.name]
                except Exception as error:  # noqa: BLE001 (otherwise the figures of other systems would be lost)
                    wrong.append(f"{kind.name} failed in round {number + 1}: {error!r}"[:500])
                else:
                    report[kind.name].append(figures)
                    continue
            note(wrong[-1])
    return report, wrong


def main() -> None:
    parser = benchmark_parser(__doc__)
    names = [kind.name for kind in PEERS]
    parser.add_argument("--only", choices=names, action="append", help="may be given more than once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each row, about")
    options, note = parsed(parser)
    peers = {kind: rows for kind, rows in PEERS.items() if not options.only or kind.name in options.only}
    report, wrong = rounds_of(peers, options.rounds, options.seconds, note)
    publish("peers.side_by_side", "\n\n".join([shown(report), *wrong]), {**report, "wrong": wrong}, options)


if __name__ == "__main__":
    main()
