"""Which partition is fetched from which leader: one fetcher per leader broker (FT-1)."""

import asyncio
from collections.abc import Callable

from cluster.broker.fetcher import Fetcher
from cluster.broker.partition import HostedPartition
from replog.metadata import Broker
from replog.topic import TopicPartition


class FetcherManager:
    """Every fetcher by the leader it copies from; those without partitions are closed."""

    def __init__(self, new_fetcher: Callable[[str], Fetcher]) -> None:
        self._new_fetcher = new_fetcher  # for a leader's address
        self._fetchers: dict[str, Fetcher] = {}
        self._places: dict[TopicPartition, str] = {}
        self._closing: dict[asyncio.Task[None], None] = {}

    def fetch(self, hosted: HostedPartition, leader: Broker) -> None:
        """Copy this partition from `leader`, and from nobody else, once `go` is called: of many at a time, one request
        names all."""
        self.stop(hosted.topic_partition)
        fetcher = self._fetchers.get(leader.address)
        if fetcher is None:
            fetcher = self._fetchers[leader.address] = self._new_fetcher(leader.address)
        fetcher.add(hosted)
        self._places[hosted.topic_partition] = leader.address

    def go(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.go()

    def is_fetching(self, tp: TopicPartition, leader: Broker) -> bool:
        return self._places.get(tp) == leader.address

    def flushed(self, tp: TopicPartition) -> None:
        """A flush of this partition's log is done."""
        if tp in self._places:
            self._fetchers[self._places[tp]].flushed(tp)

    def stop(self, tp: TopicPartition) -> None:
        """Nothing is appended to this partition by a fetch once this returns."""
        address = self._places.pop(tp, None)
        if address is not None:
            self._fetchers[address].remove(tp)

    def close_idle(self) -> None:
        for address, fetcher in list(self._fetchers.items()):
            if fetcher.empty:
                del self._fetchers[address]
                task = asyncio.create_task(fetcher.close())
                self._closing[task] = None
                task.add_done_callback(self._closing.pop)

    async def close(self) -> None:
        for tp in list(self._places):
            self.stop(tp)
        self.close_idle()
        await asyncio.gather(*self._closing, return_exceptions=True)
