"""A broker of a scenario: the real replica manager, with the scenario's clock in the place of an event loop. And a
follower's stream to its leader, with both halves of the session."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from follower.fetch_session_handler import FetchedReplica, FetchSessionHandler
from follower.partition_follower import FollowerProgress, PartitionFollower
from leader.consumer_session import ConsumerSession
from leader.fetch_session import FetchSession
from leader.follower_session import FollowerSession
from leader.isr import AlterPartitionQueue, IsrProposal
from leader.partition_leader import PartitionLeader
from replog.config.processes import BrokerConfig
from replog.log.fetch import FetchAnswer, FetchPartition, SessionRequest, SessionRow
from replog.log.log import Log
from replog.metadata.image import MetadataImage
from replog.metadata.values import PartitionState
from replog.server.broker.context import BrokerContext
from replog.server.broker.replicas.hosted_replicas import HostedPartition, HostedReplicas
from replog.server.broker.replicas.replica_manager import DelayedOperations, ReplicaManager
from replog.topic import TopicPartition
from tests.leader.replicas import NOW_MS
from tests.scenarios.notation import named, show_answer, show_fetch

Requests = dict[TopicPartition, FetchPartition]
Respond = Callable[[dict[TopicPartition, FetchAnswer]], None]
Send = Callable[[Sequence[SessionRow]], None]


class ScenarioClock:
    """Milliseconds since the scenario began."""

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return NOW_MS + self.now_ms

    def monotonic_s(self) -> float:
        return self.monotonic_ms() / 1000

    def wall_ms(self) -> int:
        return NOW_MS + self.now_ms


class WaitingRequests(DelayedOperations):
    """A purgatory whose deadlines come when the scenario's clock reaches them."""

    def _arm(self) -> None:
        """No timer: `expire` is called."""

    @property
    def next_deadline_ms(self) -> int | None:
        return self.purgatory.next_deadline_ms()

    @property
    def sizes(self) -> tuple[int, int]:
        """Entries in the lists of all keys, and requests that wait (PG-13)."""
        return self.purgatory.size, self.purgatory.delayed

    def expire(self) -> None:
        self._expire()


class Broker(ReplicaManager):
    """One broker. What an event touches is checked by `settle`, as it is once the event loop has a moment (PR-6)."""

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        image: MetadataImage,
        clock: ScenarioClock,
        submit: Callable[[TopicPartition, IsrProposal], bool],
        **settings: Any,
    ) -> None:
        config = BrokerConfig.model_construct(
            **{**BrokerConfig(node_id=broker_id, log_dirs=directory).model_dump(), **settings}
        )
        context = BrokerContext(config, image, clock, self._fail)
        super().__init__(context, HostedReplicas(context), submit)
        self.id, self.config, self.image, self.clock = broker_id, config, image, clock
        self.hosted, self.failure_detector = self.replicas.hosted, self.replicas.failure_detector
        self.produces = WaitingRequests(clock)
        self.record_deletions = WaitingRequests(clock)
        self.proposals = AlterPartitionQueue()
        self.sent: dict[TopicPartition, IsrProposal] | None = None  # to the controller, not answered yet
        self.open_sessions: dict[FetchSession[Any], None] = {}
        self.hears_metadata = True
        self.alive = True

    @staticmethod
    def _fail(error: Exception) -> None:
        raise error

    def _follow_up_soon(self) -> None:
        """`settle` does."""

    def settle(self) -> bool:
        """Do what the last events set off; whether there was anything."""
        anything = bool(self._advanced or self.sessions.any_marked)
        advanced, self._advanced = self._advanced, {}
        self._check(advanced)
        self.sessions.answer(tuple(self.sessions._marked))
        return anything

    @property
    def purgatories(self) -> tuple[WaitingRequests, ...]:
        return self.produces, self.record_deletions

    @property
    def waiting_fetches(self) -> tuple[int, int]:
        """Partitions that are watched for fetches, by each that does, and fetches that wait."""
        return sum(map(len, self.sessions.watching.values())), sum(
            s.deadline_ms is not None for s in self.open_sessions
        )

    @property
    def next_wake_ms(self) -> int | None:
        """When something that waits here is due next."""
        deadlines = [purgatory.next_deadline_ms for purgatory in self.purgatories]
        deadlines += [session.next_wake_ms for session in self.open_sessions if isinstance(session, FollowerSession)]
        deadlines += [session.deadline_ms for session in self.open_sessions]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def on_time(self) -> None:
        """Whatever is due."""
        for purgatory in self.purgatories:
            purgatory.expire()
        now_ms = self.clock.monotonic_ms()
        for session in tuple(self.open_sessions):
            if isinstance(session, FollowerSession):
                session.on_time(now_ms)
            elif session.deadline_ms is not None and now_ms >= session.deadline_ms:
                session._ready(now_ms)

    def host(self, tp: TopicPartition, log: Log) -> None:
        self.hosted[tp] = HostedPartition(tp, b"", log)

    def apply(self, tp: TopicPartition, state: PartitionState) -> None:
        """Take up the role that a metadata record gives this broker (2.3)."""
        hosted, now_ms = self.hosted[tp], self.clock.monotonic_ms()
        registered = self.image.broker(self.id)
        if state.leader == self.id:
            if hosted.leader is None:
                hosted.leader = PartitionLeader(
                    tp, self.id, hosted.log, self.image, replica_lag_time_max_ms=self.config.replica_lag_time_max_ms
                )
            hosted.follower = None
            hosted.leader.become_leader(state, registered.broker_epoch, now_ms)
            self.propose(tp, hosted.leader)
        else:
            hosted.leader = None
            if hosted.follower is None:
                hosted.follower = PartitionFollower(tp, hosted.log, backoff_ms=self.config.replica_fetch_backoff_ms)
            hosted.follower.become_follower(state, now_ms)
        self.role_changed(tp)

    def answer_follower(self, request: SessionRequest, respond: Respond) -> bool:
        """A follower's fetch, on a stream of its own: answered now, or waiting for data (FE-11). True if it waits."""
        session = self.open_session(lambda rows: self._answer(session, rows, respond))
        now_ms = self.clock.monotonic_ms()
        self.failure_detector.heard(request.replica_id, now_ms)
        session.on_request(request, now_ms)
        return session in self.open_sessions

    def answer_consumer(self, request: SessionRequest, respond: Respond) -> bool:
        """A consumer's fetch, on a stream of its own. True if it waits."""
        config, now_ms = self.config, self.clock.monotonic_ms
        session = ConsumerSession(
            self.sessions,
            self.replicas,
            lambda: self._answer(session, session.answer(now_ms(), config.fetch_max_bytes), respond),
            max_bytes=config.fetch_max_bytes,
            max_wait_ms=config.request_timeout_ms,
        )
        self.open_sessions[session] = None
        session.on_request(request)
        response = session.ask(request, now_ms(), config.fetch_max_bytes)
        if response is not None:
            self._answer(session, response, respond)
        return session in self.open_sessions

    def _answer(self, session: FetchSession[Any], rows: Sequence[SessionRow], respond: Respond) -> None:
        """Answer the only request of a stream, which ends with it."""
        del self.open_sessions[session]
        session.close()
        respond({row.topic_partition: row.answer for row in rows})

    def open_session(self, send: Send, push: Send | None = None) -> FollowerSession:
        session = FollowerSession(
            self.sessions,
            self.replicas,
            self.on_fetched,
            send,
            push or send,
            lambda _: None,
            max_bytes=self.config.fetch_max_bytes,
            max_wait_ms=self.config.request_timeout_ms,
        )
        self.open_sessions[session] = None
        return session


class Stream:
    """The follower asks again whenever its session wants to; no time passes on the way."""

    def __init__(
        self,
        follower: Broker,
        leader: Broker,
        broker_epoch: int,
        say: Callable[[str], None],
        on_progress: Callable[[Broker, TopicPartition, FollowerProgress], None],
    ) -> None:
        self.follower = follower
        self.leader = leader
        self.silent = False
        self._say = say
        self._arrived: list[tuple[Sequence[SessionRow], bool]] = []  # rows, and if they were pushed
        self.asking = FetchSessionHandler(
            follower.config,
            lambda: broker_epoch,
            follower.replicas.copying,
            lambda replica, progress: on_progress(follower, replica.topic_partition, progress),
            self._failed,
        )
        self.answering = leader.open_session(self._answer, lambda rows: self._answer(rows, pushed=True))
        for tp in follower.hosted:
            self.place(tp)

    def place(self, tp: TopicPartition) -> None:
        """The follower copies `tp` from this leader, or no longer."""
        self.asking.remove(tp)
        hosted = self.follower.hosted.get(tp)
        if hosted is not None and hosted.follower is not None and hosted.follower.leader_id == self.leader.id:
            self.asking.add(hosted)

    def settle(self) -> bool:
        """What has arrived is taken, and what is to be asked is asked; whether there was anything."""
        now_ms = self.follower.clock.monotonic_ms()
        arrived, self._arrived = self._arrived, []
        for rows, pushed in arrived:
            if pushed:
                self.asking.on_push(rows)
            else:
                self.asking.on_response(rows, now_ms)
        request = None if self.silent else self.asking.next_request(now_ms)
        if request is not None:
            self._say_asked(request)
            self.leader.failure_detector.heard(self.follower.id, now_ms)
            self.answering.on_request(request, now_ms)
        return bool(arrived) or request is not None

    def close(self) -> None:
        del self.leader.open_sessions[self.answering]
        self.answering.close()
        for tp in list(self.asking.partitions):
            self.asking.remove(tp)

    @staticmethod
    def _failed(_: FetchedReplica, error: Exception) -> None:
        raise error

    def _say_asked(self, request: SessionRequest) -> None:
        words = [f"{named('', tp)} {show_fetch(fetch)}".lstrip() for tp, fetch in request.named.items()]
        words += [f"no more {named('', tp)}".rstrip() for tp in request.forgotten]
        if words:
            self._say(f"{self.follower.id} asks {self.leader.id}: {', '.join(words)}")

    def _answer(self, rows: Sequence[SessionRow], *, pushed: bool = False) -> None:
        self._arrived.append((rows, pushed))
        words = []
        for tp, _, answer in rows:
            word = f"hw {answer.high_watermark}" if pushed else show_answer(answer)
            words.append(f"{named('', tp)} {word}".lstrip())
        if words:
            verb = "tells" if pushed else "answers"
            self._say(f"{self.leader.id} {verb} {self.follower.id}: {', '.join(words)}")
