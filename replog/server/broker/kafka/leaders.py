"""The leaders that an answer names, so that a client which asked the wrong broker need not look them up (KIP-951)."""

from collections.abc import Iterator

from replog.config.listeners import parse_address
from replog.errors import ErrorCode
from replog.metadata.values import NO_LEADER
from replog.server.broker.kafka.service import KafkaService
from replog.topic import TopicPartition

MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Leaders:
    def __init__(self, service: KafkaService) -> None:
        self._image = service.context.image
        self._listener = service.listener
        self._named: dict[int, None] = {}

    def of(self, tp: TopicPartition) -> tuple[int, int]:
        """Return the leader and its epoch, and name it in `endpoints`. Both are -1 if none is known."""
        state = self._image.partitions.get(tp)
        if state is None or state.leader == NO_LEADER:
            return -1, -1
        self._named[state.leader] = None
        return state.leader, state.leader_epoch

    def endpoints(self) -> Iterator[tuple[int, str, int, str | None]]:
        """Yield id, host, port and rack of each leader that was named."""
        for broker_id in self._named:
            broker = self._image.broker(broker_id)
            if broker is not None and (address := broker.address_at(self._listener)):
                host, port = parse_address(address)
                yield broker_id, host.strip("[]"), port, broker.rack or None
