"""Writes the metadata of a new cluster into an etcd that is not served yet."""

from random import Random
from typing import Any

from replog.rpc.methods import Method
from replog.server.controller.etcd.store import EtcdStore
from replog.server.controller.formatting import first_records
from replog.simulator.etcd.state import EtcdState

PREFIX = "/replog/"


class _AtOnce:
    """An `EtcdClient` that waits for nothing."""

    endpoints: tuple[str, ...] = ("here",)

    def __init__(self, state: EtcdState) -> None:
        self._state = state

    async def call(self, _method: Method, request: Any) -> Any:
        return self._state.txn(request)


def format_at_once(state: EtcdState, rng: Random) -> None:
    _, records = first_records(None, rng)
    creating = EtcdStore(_AtOnce(state), PREFIX, rng).create(records)
    try:
        creating.send(None)
    except StopIteration:
        return
    raise AssertionError("it has waited")
