"""A follower's stream to its leader, with both halves of the session; what they say is seen when there is anything."""

from collections.abc import Callable, Sequence

from follower.fetch_session_handler import FetchedReplica, FetchSessionHandler
from follower.partition_follower import FollowerProgress
from replog.log.fetch import SessionRequest, SessionRow
from replog.topic import TopicPartition
from tests.scenarios.broker import Broker
from tests.scenarios.notation import named, show_answer, show_fetch


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
