"""The function calls of ARCHITECTURE.md, from a stream to a file, are those of a broker that runs."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from replog.log.files.tail import Tail
from replog.rpc import methods
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import batch, produce_request

ROOT = Path(__file__).parents[4]
OURS = tuple(f"{ROOT}/{package}/" for package in ("replog", "leader", "follower"))
TRANSPORT = f"{ROOT}/replog/rpc/"


def told() -> set[str]:
    """The chains of ARCHITECTURE.md."""
    (text,) = re.findall(r"test_call_chains.*?```text\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), re.DOTALL)
    return {" ".join(chain.split()) for chain in text.split("\n\n")}


def calls_to(name: str) -> str:
    """Our functions that are being called, from the stream's on, with `name` behind them."""
    names, frame = [name], sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith(OURS) and not frame.f_code.co_filename.startswith(TRANSPORT):
            names.append(frame.f_code.co_qualname)
        frame = frame.f_back  # type: ignore[assignment]
    return " > ".join(reversed(names))


def watched(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> set[str]:
    """What calls `<owner>.<name>` from now on, for an owner that is a class or `os`."""
    real, seen = getattr(owner, name), set[str]()

    def called(*arguments: Any) -> Any:
        seen.add(calls_to(getattr(real, "__qualname__", name)))
        return real(*arguments)

    monkeypatch.setattr(owner, name, called)
    return seen


async def test_the_chains_of_calls_are_those_that_are_told(cluster, monkeypatch):
    """A produce while the follower's fetch waits takes all three."""
    writes, reads = watched(monkeypatch, os, "pwritev"), watched(monkeypatch, Tail, "read")
    await cluster.begin(2)
    tp = TopicPartition("t", 0)
    stream = cluster.to_leader(tp).open(methods.Log["produce"])
    for _ in range(50):  # the follower's fetch may not wait yet, or not just then
        await stream.send(produce_request(tp, batch(b"x")))
        await stream.receive()
        if told() <= writes | reads:
            break
    stream.cancel()
    assert told() <= writes | reads
