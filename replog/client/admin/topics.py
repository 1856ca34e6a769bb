"""An admin's calls for topics: make, change, delete and describe them."""

import difflib
from collections.abc import Mapping, Sequence
from itertools import chain

from replog.client.admin.calls import Calls, placed
from replog.client.arguments import changes, texts, whole
from replog.client.descriptions import PartitionDescription, TopicDescription
from replog.errors import ErrorCode, ReplogError
from replog.rpc.codec import same_fields
from replog.rpc.methods import Controller
from replog.rpc.v1 import controller_pb2, log_pb2
from replog.topic import validate_topic_name

_PARTITION = ("partition", "leader", "leader_epoch", "partition_epoch", "throttle")
_REPLICAS = ("replicas", "isr", "elr", "adding_replicas", "removing_replicas")
_UNKNOWN_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Topics(Calls):
    async def create_topic(
        self,
        topic: str,
        partitions: int = 0,
        replication_factor: int = 0,
        configs: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] = (),
        validate_only: bool = False,
    ) -> None:
        """Create a topic (0: the controller's defaults) and wait until a broker knows all of its leaders.

        Raises TOPIC_ALREADY_EXISTS, INVALID_* or, at the deadline, the last error. INVALID_REPLICATION_FACTOR is raised
        at once while too few brokers are up, as in Kafka."""
        request = controller_pb2.CreateTopicRequest(
            topic=validate_topic_name(topic),
            partitions=whole("partitions", partitions),
            replication_factor=whole("replication_factor", replication_factor),
            configs=texts(configs),
            **placed(assignment, validate_only),
            topic_id=self._rng.randbytes(16),  # shows the controller a repeated request
        )
        response: controller_pb2.CreateTopicResponse = await self._ask_controller(Controller["create_topic"], request)
        if validate_only:
            return

        async def visible() -> None:
            known = (await self._metadata.fetch((topic,))).topics
            made = (described.partitions for described in known if described.topic_id == response.topic_id)
            led = sum(partition.leader >= 0 for partition in chain.from_iterable(made))
            if led < response.partitions:
                raise ErrorCode.LEADER_NOT_AVAILABLE.error(
                    f"topic {topic!r} is created, but the brokers know of leaders of only {led} of its "
                    f"{response.partitions} partitions so far; describe it until they know all"
                )

        await self._until_known(visible)

    async def create_partitions(
        self, topic: str, total: int, assignment: Sequence[Sequence[int]] = (), validate_only: bool = False
    ) -> None:
        """Add partitions until the topic has `total`, and wait until a broker knows them.

        `assignment` has the brokers of each new one. A request whose answer is lost is sent again; INVALID_PARTITIONS
        is then a success if there are `total`. Raises that error unless there will be more than there are."""
        request = controller_pb2.CreatePartitionsRequest(
            topic=validate_topic_name(topic), total_count=whole("total", total), **placed(assignment, validate_only)
        )

        async def create(_: bool) -> None:
            await self._call_controller(await self._known(), Controller["create_partitions"], request)

        async def visible() -> int:
            if (known := len((await self._describe(topic)).partitions)) < total:
                raise ErrorCode.LEADER_NOT_AVAILABLE.error(
                    f"topic {topic!r} has {total} partitions now, but the brokers know of {known} so far"
                )
            return known

        async def is_made(error: ReplogError) -> bool:
            return error.code is ErrorCode.INVALID_PARTITIONS and await visible() == total

        await self._change(create, is_made)
        if not validate_only:
            await self._until_known(visible)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic and wait until a broker no longer knows it. Raises UNKNOWN_TOPIC_OR_PARTITION.

        A request whose answer is lost is sent again for the same topic, not for a new one of its name; if the topic is
        unknown then, it was deleted."""
        request = controller_pb2.DeleteTopicRequest(topic=validate_topic_name(topic))

        async def delete(lost: bool) -> None:
            metadata = await self._known((topic,))
            if not lost:
                request.topic_id = next((known.topic_id for known in metadata.topics if not known.error_code), b"")
            await self._call_controller(metadata, Controller["delete_topic"], request)

        async def is_made(error: ReplogError) -> bool:
            return bool(request.topic_id) and error.code in _UNKNOWN_TOPIC

        async def gone() -> None:
            response = await self._metadata.fetch((topic,))
            if any(not known.error_code and request.topic_id in (known.topic_id, b"") for known in response.topics):
                raise ErrorCode.REQUEST_TIMED_OUT.error(f"topic {topic!r} is deleted, but still known")

        await self._change(delete, is_made)
        await self._until_known(gone)

    async def alter_topic_configs(
        self, topic: str, configs: Mapping[str, str], delete: Sequence[str] = (), validate_only: bool = False
    ) -> dict[str, str]:
        """Set `configs`, put those in `delete` back to their defaults, keep the others, and return all that are set.

        Waits until a broker uses them. Raises UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, INVALID_REQUEST."""
        changed = changes(configs, delete, validate_only)
        request = controller_pb2.AlterTopicConfigsRequest(topic=validate_topic_name(topic), **changed)
        response = await self._ask_controller(Controller["alter_topic_configs"], request)
        altered = dict(response.configs)

        async def known() -> None:
            current = (await self._describe(topic)).configs
            if any(current.get(name) != altered.get(name) for name in (*changed["set"], *changed["delete"])):
                raise ErrorCode.REQUEST_TIMED_OUT.error(f"topic {topic!r} is altered, but not yet known to be")

        if not validate_only:
            await self._until_known(known, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return altered

    async def list_topics(self) -> list[str]:
        """Return the names of all topics that this client may describe."""
        response = await self._retry(lambda: self._metadata.fetch((), names_only=True))
        return sorted(topic.topic for topic in response.topics if not topic.error_code)

    async def describe_topic(self, topic: str) -> TopicDescription:
        """Describe a topic, as brokers know it. Raises UNKNOWN_TOPIC_OR_PARTITION, with similar names."""
        validate_topic_name(topic)
        try:
            return await self._retry(lambda: self._describe(topic), not_retried=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        except ReplogError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            alike = difflib.get_close_matches(topic, await self.list_topics())
            meant = f"; did you mean {' or '.join(map(repr, alike))}?" if alike else "; replog topic list shows all"
            raise ReplogError(error.code, error.message + meant) from None

    async def describe_topics(self) -> list[TopicDescription]:
        """Describe all topics that this client may describe, by name. One answer has them all: 20,000 partitions, the
        most there are, take half a MiB."""
        response = await self._retry(lambda: self._metadata.fetch(()))
        return sorted((_topic(t) for t in response.topics if not t.error_code), key=lambda described: described.topic)

    async def _describe(self, topic: str) -> TopicDescription:
        response = await self._metadata.fetch((topic,))
        described = next((known for known in response.topics if known.topic == topic), None)
        if described is None or described.error_code:
            code = ErrorCode(described.error_code) if described is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            denied = code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            why = "is not for this client; an administrator can allow it: replog acl add" if denied else "is not known"
            raise ReplogError(code, f"topic {topic!r} {why}")
        return _topic(described)


def _topic(described: log_pb2.TopicMetadata) -> TopicDescription:
    partitions = (
        PartitionDescription(**same_fields(partition, _PARTITION, _REPLICAS)) for partition in described.partitions
    )
    ordered = tuple(sorted(partitions, key=lambda partition: partition.partition))
    return TopicDescription(described.topic, described.topic_id, ordered, dict(described.configs))
