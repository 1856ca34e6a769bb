"""The leaders of partitions: a cached view of the cluster, refreshed on demand, that never becomes older.

Any broker may be asked, but it may have lost the controller and have old metadata (divergence 24). So answers say how
new they are. One that is older than the view is ignored. If the broker has not heard its controller lately, a second
broker is asked. If a refresh did not help, the next one asks another broker."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from replog.client.arguments import check_timeout, listed
from replog.client.lifetime import Lifetime, warn_if_long
from replog.common.backoff import Backoff
from replog.config.listeners import check_address
from replog.config.topic import topic_config
from replog.errors import DENIALS, ErrorCode, ReplogError
from replog.rpc.limits import MAX_ANSWER_BYTES
from replog.rpc.methods import Log, Method
from replog.rpc.names import unless_unknown
from replog.rpc.tasks import may_fail_unheard
from replog.rpc.transport import Channel, Transport
from replog.rpc.v1 import log_pb2
from replog.topic import TopicPartition, validate_topic_name

REFRESH_BACKOFF_MAX_MS = 500  # how often a client in trouble looks for a new leader
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
CALL_TIMEOUT_S = 3.0  # then the next broker is asked
AVOID_S = 10.0  # a broker that did not answer is asked last for so long: it takes seconds to notice that one hangs
SHOWN = 3  # brokers that do not answer, and causes, in a message
STALE_MS = 3000  # a broker without its controller for so long, which speaks every second, may know old metadata

logger = logging.getLogger(__name__)


class Leader(NamedTuple):
    """A partition's leader, its address, and the epoch in which it leads."""

    broker_id: int
    address: str
    epoch: int


class PartitionView(NamedTuple):
    """The newest known leadership of one partition; `leader` is -1 when it has none."""

    leader: int
    leader_epoch: int


class TopicView(NamedTuple):
    topic_id: bytes
    partitions: dict[int, PartitionView]
    led: list[int]  # partitions with a leader
    max_batch_bytes: int


def parse_bootstrap(bootstrap: str | Sequence[str]) -> tuple[str, ...]:
    """Parse `host:port,host:port` or a list of them. Raises INVALID_CONFIG if one is not an address, or none given."""
    given = bootstrap.split(",") if isinstance(bootstrap, str) else listed("bootstrap", bootstrap, "host:port")
    addresses = [str(address).strip() for address in given if str(address).strip()]
    if not addresses:
        raise ErrorCode.INVALID_CONFIG.error("no bootstrap address is given; name at least one host:port")
    for address in addresses:
        try:
            check_address(address)
        except ValueError as error:
            raise ErrorCode.INVALID_CONFIG.error(f"bootstrap address {error}") from None
    return tuple(dict.fromkeys(addresses))


def _reasons(failures: Mapping[str, ReplogError]) -> str:
    """Say why brokers do not answer, each address and each cause once."""
    causes: dict[str, list[str]] = {}
    for address, error in sorted(failures.items()):
        is_named = error.message.startswith(address)
        cause = error.message.removeprefix(address).replace(address, "…")  # gRPC's own message repeats it
        causes.setdefault(cause if is_named else f": {cause}", []).append(address)
    return _some("; ", [_some(", ", addresses) + cause for cause, addresses in causes.items()])


def _some(between: str, words: Sequence[str]) -> str:
    more = [f"and {len(words) - SHOWN} more"] if len(words) > SHOWN else []
    return between.join([*words[:SHOWN], *more])


class ClusterView:
    """The metadata from GetMetadata answers. Pure: no waiting, no network."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.version = 0  # the metadata's; versions of two clusters cannot be compared
        self.controller = ""
        self.brokers: dict[int, str] = {}  # address by id
        self.topics: dict[str, TopicView] = {}
        self.denied: set[str] = set()  # topics that no ACL lets this client describe

    def apply(self, response: log_pb2.GetMetadataResponse) -> None:
        """Take in the answer, unless it is older. One of another cluster replaces everything."""
        if self.is_older(response):
            return
        if response.cluster_id != self.cluster_id:
            self.topics.clear()
        self.cluster_id = response.cluster_id
        self.version = response.metadata_version
        self.controller = response.controller
        self.brokers = {broker.broker_id: broker.address for broker in response.brokers}
        for topic in response.topics:
            self.denied.discard(topic.topic)
            if topic.error_code:
                if topic.error_code == int(ErrorCode.TOPIC_AUTHORIZATION_FAILED):
                    self.denied.add(topic.topic)
                self.topics.pop(topic.topic, None)
                continue
            partitions = {p.partition: PartitionView(p.leader, p.leader_epoch) for p in topic.partitions}
            led = [number for number, view in partitions.items() if view.leader >= 0]
            config = topic_config("", topic.configs)
            largest = min(DEFAULT_MAX_MESSAGE_BYTES, config.max_message_bytes, config.segment_bytes)  # a batch (2.6)
            self.topics[topic.topic] = TopicView(topic.topic_id, partitions, led, largest)

    def is_older(self, response: log_pb2.GetMetadataResponse) -> bool:
        return response.cluster_id == self.cluster_id and response.metadata_version < self.version

    def leader(self, partition: TopicPartition) -> Leader | None:
        """Return the leader; None if the partition, its leader or the leader's address is not known."""
        topic = self.topics.get(partition.topic)
        view = topic.partitions.get(partition.partition) if topic is not None else None
        if view is None:
            return None
        address = self.brokers.get(view.leader)
        return Leader(view.leader, address, view.leader_epoch) if address else None


class Metadata:
    """The client's connections and its view of the cluster. Network errors are raised as `ReplogError`."""

    def __init__(self, bootstrap: str | Sequence[str], transport: Transport, rng: Random, what: str = "client") -> None:
        self.bootstrap = parse_bootstrap(bootstrap)
        self.life = Lifetime(what)
        self.view = ClusterView()
        self.on_change: Callable[[], object] = lambda: None  # called after each answer is taken in
        self._transport = transport
        self._backoff = Backoff(rng, max_ms=REFRESH_BACKOFF_MAX_MS)
        self._channels: dict[str, Channel] = {}
        self._wanted: dict[str, None] = {}
        self._looked_for = Counter[str]()  # topics that calls wait for
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshes_in_a_row = 0
        self._last_refresh: float | None = None
        self._order = list(self.bootstrap)  # the broker to ask first comes first
        self._reported = False  # the log says already that there is no metadata
        self._silent: dict[str, float] = {}  # brokers that did not answer, and when (loop time, s)

    def channel(self, address: str) -> Channel:
        self.life.check(closed_too=False)
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._transport.connect(address)
        return channel

    def want(self, topics: Iterable[str]) -> None:
        """Ask for these topics in every refresh from now on. Raises INVALID_TOPIC_EXCEPTION."""
        for topic in topics:
            self._wanted[validate_topic_name(topic)] = None

    async def refresh(self) -> None:
        """Ask a broker for the wanted topics, or join a refresh under way. Refreshes in quick succession back off.

        Raises NETWORK_EXCEPTION if no broker answers."""
        self.life.check(closed_too=False)
        if self._refreshing is None or self._refreshing.done():  # joining one that is done does not give way
            self._refreshing = may_fail_unheard(self._refresh())
        await asyncio.shield(self._refreshing)

    async def topic(self, name: str, timeout_s: float) -> TopicView:
        """Wait until a broker knows the topic, and return its view. Raises TOPIC_AUTHORIZATION_FAILED at once,
        UNKNOWN_TOPIC_OR_PARTITION at the deadline, NETWORK_EXCEPTION if no broker could be asked."""
        self.life.check()
        check_timeout(timeout_s)
        unreachable: ReplogError | None = ErrorCode.NETWORK_EXCEPTION.error(
            f"no broker has answered in {timeout_s:g} s ({_some(', ', self._addresses())})"
        )
        self._looked_for[validate_topic_name(name)] += 1
        try:
            async with (
                asyncio.timeout(timeout_s),
                warn_if_long(
                    lambda: f"topic {name!r} is waited for, {timeout_s:g} s at most: {unreachable or 'it is not known'}"
                ),
            ):
                while name not in self.view.topics:
                    try:
                        await self.refresh()
                        unreachable = None
                    except ReplogError as error:
                        unreachable = error
                    if name in self.view.denied:
                        raise ErrorCode.TOPIC_AUTHORIZATION_FAILED.error(
                            f"topic {name!r}, if there is one, is not for this client: no ACL lets it describe it"
                        )
        except TimeoutError:
            raise unreachable or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(
                f"topic {name!r} is not known after {timeout_s:g} s; create it, or check its name"
            ) from None
        finally:
            self._looked_for -= Counter((name,))
        self._wanted[name] = None
        return self.view.topics[name]

    async def fetch(
        self, topics: Iterable[str] | None = None, *, names_only: bool = False
    ) -> log_pb2.GetMetadataResponse:
        """Return the first GetMetadata answer, or if that is stale the newer of two. Empty `topics` are all, None is
        none. With `names_only` the answer has only the names of topics."""
        request = log_pb2.GetMetadataRequest(
            topics=topics, without_topics=topics is None, max_bytes=MAX_ANSWER_BYTES, names_only=names_only
        )
        response: log_pb2.GetMetadataResponse = await self.ask_any(Log["get_metadata"], request)
        is_stale = response.controller_heard_ms_ago > STALE_MS or self.view.is_older(response)
        if is_stale and len(self._order) > 1:
            self.ask_another()
            with contextlib.suppress(ReplogError):
                other = await self.ask_any(Log["get_metadata"], request)
                response = max(response, other, key=lambda each: (each.metadata_version, -each.controller_heard_ms_ago))
        self._reported = False
        if not names_only:
            self.view.apply(response)
            self.on_change()
        return response

    def ask_another(self) -> None:
        """Begin with another broker the next time: the last answer did not help."""
        order = self._addresses()
        self._order = order[1:] + order[:1]

    def avoid(self, address: str) -> None:
        """Ask this broker last for a while: it does not answer."""
        self._silent[address] = asyncio.get_running_loop().time()

    async def ask_any(self, method: Method, request: Any) -> Any:
        """Return the first answer of a broker.

        Raises NETWORK_EXCEPTION, with the brokers' reasons; or an error that lasts, such as that of an ACL."""
        self.life.check(closed_too=False)
        failures: dict[str, ReplogError] = {}
        for address in self._addresses():
            try:
                response = await self.channel(address).call(method, request, CALL_TIMEOUT_S)
            except ReplogError as error:
                if error.code in DENIALS:
                    raise
                failures[address] = error
                self.avoid(address)
            else:
                self._silent.pop(address, None)
                return response
        lasting = [error for error in failures.values() if not error.retriable]
        if len(lasting) == len(failures):
            raise lasting[0]
        asked = unless_unknown("is the cluster up and the address right", failures.values())
        raise ErrorCode.NETWORK_EXCEPTION.error(f"no broker answers{asked} ({_reasons(failures)})")

    def report(self, error: ReplogError) -> None:
        """Log why there is no metadata, once until there is some again: every try would say the same."""
        if not self._reported:
            self._reported = True
            logger.warning("no metadata, trying on: %s", error.message)

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()

    def _addresses(self) -> list[str]:
        known = dict.fromkeys((*self.view.brokers.values(), *self.bootstrap))
        self._order = list(dict.fromkeys((*(address for address in self._order if address in known), *known)))
        avoided = asyncio.get_running_loop().time() - AVOID_S
        self._silent = {address: at for address, at in self._silent.items() if address in known and at > avoided}
        return sorted(self._order, key=lambda address: self._silent.get(address, -1.0))

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        if self._last_refresh is not None:
            quiet_s = loop.time() - self._last_refresh
            self._refreshes_in_a_row = self._refreshes_in_a_row + 1 if quiet_s < 2 else 1
            await asyncio.sleep(max(0.0, self._backoff.delay_s(self._refreshes_in_a_row) - quiet_s))
            if self._refreshes_in_a_row > 1:
                self.ask_another()
        try:
            await self.fetch(dict.fromkeys((*self._wanted, *self._looked_for)) or None)
        finally:
            self._last_refresh = loop.time()
