"""Fetchers of partitions, one for each leader broker (FT-1)."""

import asyncio
from collections.abc import Callable

from replog.metadata.values import BrokerRegistration
from replog.server.broker.replicas.hosted_partition import HostedPartition
from replog.server.broker.replication.replica_fetcher import ReplicaFetcher
from replog.topic import TopicPartition


class FetcherManager:
    """Every fetcher, by the leader that it copies from. Fetchers without partitions are closed."""

    def __init__(self, new_fetcher: Callable[[str], ReplicaFetcher]) -> None:
        self._new_fetcher = new_fetcher  # gets a leader's address
        self._fetchers: dict[str, ReplicaFetcher] = {}
        self._places: dict[TopicPartition, str] = {}
        self._closing: dict[asyncio.Task[None], None] = {}

    def fetch(self, hosted: HostedPartition, leader: BrokerRegistration) -> None:
        """Copy this partition from `leader` only, after `go` is called: so one request names many partitions."""
        self.stop(hosted.topic_partition)
        fetcher = self._fetchers.get(leader.address)
        if fetcher is None:
            fetcher = self._fetchers[leader.address] = self._new_fetcher(leader.address)
        fetcher.add(hosted)
        self._places[hosted.topic_partition] = leader.address

    def go(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.go()

    def is_fetching(self, tp: TopicPartition, leader: BrokerRegistration) -> bool:
        return self._places.get(tp) == leader.address

    def flushed(self, tp: TopicPartition) -> None:
        """Note that a flush of this partition's log is done."""
        if tp in self._places:
            self._fetchers[self._places[tp]].flushed(tp)

    def stop(self, tp: TopicPartition) -> None:
        """Stop fetching this partition. Nothing is appended to it after this returns."""
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
