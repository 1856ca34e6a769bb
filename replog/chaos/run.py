"""One run, inside its namespaces: faults until the time is up, checks after each, and the verdict.

After every fault all replicas must be in sync again within two minutes, and every partition must acknowledge new
records; no process may end by itself, except a broker whose disk was hurt. In the end all clients must have seen one
history (INV-11, INV-17, INV-18), and replicas must have the same bytes.
"""

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from replog.chaos.client import ASSIGNED, Gathered
from replog.chaos.faults import FAULTS, clients, deal, disks, links, machines  # noqa: F401 (modules register faults)
from replog.chaos.verdict import SHOWN, Episode, drain, require_honest, require_same_records, table, waiting_since
from replog.chaos.world import BROKERS, BYSTANDER, CLIENTS, CONTROLLER, SERVERS, ChaosWorld, Starved, strain
from replog.errors import ReplogError

HOLDS_S = (0.5, 12.0)  # less than a local cluster's session, and more than its lag limit
ACKNOWLEDGED_TIMEOUT_S = 60.0
FAILED, VACUOUS, STARVED = 1, 3, 75  # exit status


class Vacuous(Exception):
    """There was no fault, or nothing to compare."""


class Run:
    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self._directory = directory
        self._seconds = options.seconds
        self._only = options.only
        self._rng = random.Random(options.seed)
        holds_s = (options.hold, options.hold) if options.hold else HOLDS_S
        self._world = ChaosWorld(directory, options.seed, holds_s, options.patient)
        self._notes = Gathered(directory)
        self._began_with = self._world.account()  # CPU when the present fault began
        self._episodes: list[tuple[str, float, float, float]] = []  # kind, begun, mended, in sync

    async def run(self) -> None:
        """Run it all. Raises AssertionError for a failed check, Starved or Vacuous if there is no verdict."""
        try:
            await self._run()
        except (Starved, ReplogError) as error:  # ReplogError: an administrator's request was not answered in time
            short = strain(self._began_with, self._world.account())
            if not (short or isinstance(error, Starved)):
                raise AssertionError(str(error)) from error
            self._check_so_far()
            raise Starved(f"{error}; {short}") from error

    def _check_so_far(self) -> None:
        """Check what clients have seen so far. They are paused meanwhile, otherwise one might read a record whose send
        is not in the notes yet."""
        for client in CLIENTS:
            self._world.pause(client)
        self._notes.gather()
        for client in CLIENTS:
            self._world.resume(client)
        require_honest(self._notes.history)

    async def _run(self) -> None:
        for what, why in (("disks", self._world.no_volumes), ("clocks", machines.NO_FAKETIME)):
            if why:
                print(f"no faults of {what}: {why}", flush=True)
        await self._world.start()
        await self._acknowledged_since(time.monotonic(), "its start")
        print("all in sync; the faults begin", flush=True)
        names = deal(self._rng, with_volumes=not self._world.no_volumes)
        self._until = time.monotonic() + self._seconds
        while time.monotonic() < self._until:
            await self._hurt_and_mend((self._only,) if self._only else next(names))
        await self._check()

    async def _hurt_and_mend(self, names: Sequence[str]) -> None:
        begun, self._began_with = time.monotonic(), self._world.account()
        actions = [FAULTS[name].action(self._world, random.Random(self._rng.getrandbits(64))) for name in names]
        name, story = " + ".join(names), "; ".join(await asyncio.gather(*actions))
        mended = time.monotonic()
        if mended >= self._until:  # the last fault is also checked before it is mended
            self._check_so_far()
        await self._world.mend()
        await self._world.wait_until_in_sync()
        in_sync = time.monotonic()
        await self._acknowledged_since(in_sync, story)
        self._episodes.append((name, begun, mended, in_sync))
        episode = Episode.of(*self._episodes[-1], self._notes.history.sends)
        print(
            f"{name}: {story}; in sync {in_sync - mended:.1f} s later; a record waited {episode.longest_wait_s:.1f} s",
            flush=True,
        )

    async def _acknowledged_since(self, since: float, story: str) -> None:
        def waiting() -> list[str]:
            self._notes.gather()
            return [waiting_since(self._notes, self._world.life(client), since) for client in CLIENTS]

        failure = f"no record acknowledged after {story}"
        try:
            await self._world.until(lambda: "; ".join(filter(None, waiting())), ACKNOWLEDGED_TIMEOUT_S, failure)
        except Starved as starved:  # a machine that serves one client has the time for each
            if 0 < sum(map(bool, waiting())) < len(CLIENTS):
                raise AssertionError(str(starved)) from starved
            raise

    async def _check(self) -> None:
        await self._stop(*CLIENTS)
        self._notes.gather()
        history = self._notes.history
        await drain(self._world.bootstrap, history)
        metadata = await asyncio.to_thread(self._world.metadata)
        known = {topic.topic for topic in metadata.topics}
        memory = ""
        with contextlib.suppress(OSError):  # a server that has ended is `_stop`'s to tell
            memory = ", ".join(f"{name} {self._world.resident_mib(name):.0f}" for name in SERVERS)
        await self._stop(*BROKERS, BYSTANDER)
        await self._stop(CONTROLLER)
        episodes = [Episode.of(*episode, history.sends) for episode in self._episodes]
        print(f"\n{table(episodes)}\n")
        read = sum(len(drained.records) for drained in history.drained.values())
        elections, truncations = (self._told(word) for word in (b'"leading"', b'"truncated"'))
        print(
            f"{len(episodes)} faults of {len({episode.kind for episode in episodes})} kinds; {len(history.sends)} "
            f"records sent, {len(history.acknowledgements)} acknowledged, {read} compared in the end; "
            f"{elections} times a replica began to lead, {truncations} truncations"
        )
        print(
            f"{len(self._notes.created)} topics made, {max(self._notes.created.values(), default=0.0):.1f} s at most, "
            f"and {len(self._notes.not_created)} refused: {'; '.join(self._notes.not_created[:SHOWN]) or 'none'}"
        )
        print(f"memory in the end, MiB: {memory}")
        gone = self._notes.created.keys() - self._notes.deleting - known
        assert not gone, f"topics that were made are not there: {', '.join(sorted(gone))}"
        require_honest(history)
        require_same_records({p: [self._directory / name / "data" / str(p) for name in BROKERS] for p in ASSIGNED})
        for volume in self._world.volumes.values():
            volume.unmount()
        if not (episodes and read):
            raise Vacuous(f"{len(episodes)} faults, and {read} records to compare")

    def _told(self, word: bytes) -> int:
        """Return how often brokers' logs have a word."""
        return sum(self._world.log(name).read_bytes().count(word) for name in (*BROKERS, BYSTANDER))

    async def _stop(self, *names: str) -> None:
        for name in names:
            self._world.ask_to_stop(name)
        for name in names:
            await self._world.stopped(name)


def _enclose() -> None:
    """Mount a new /run, so that the files of `ip netns` end with the run's mount namespace."""
    assert os.getpid() == 1, "a run needs namespaces of its own: python -m replog.chaos makes them"
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    Path("/run/netns").mkdir()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--only", choices=FAULTS, help="this fault again and again")
    parser.add_argument("--hold", type=float, help="seconds that every fault lasts, instead of 0.5 to 12")
    parser.add_argument(
        "--patient", action="store_true", help="default settings: a session of 9 s, a lag limit of 30 s"
    )
    options = parser.parse_args()
    _enclose()
    directory = Path(tempfile.mkdtemp(prefix="replog-chaos-", dir="/tmp"))
    print(f"seed {options.seed}, {directory}", flush=True)
    try:
        asyncio.run(Run(directory, options).run())
    except AssertionError as failure:
        print(f"FAILED, seed {options.seed}, logs and notes in {directory}: {failure}", flush=True)
        return FAILED
    except Starved as starved:
        print(f"STARVED, seed {options.seed}, no verdict; logs and notes in {directory}: {starved}", flush=True)
        return STARVED
    except Vacuous as vacuous:
        print(f"VACUOUS, seed {options.seed}: {vacuous}", flush=True)
        return VACUOUS
    shutil.rmtree(directory, ignore_errors=True)
    print("No record was lost, doubled, reordered or vanished; the replicas are the same bytes.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
