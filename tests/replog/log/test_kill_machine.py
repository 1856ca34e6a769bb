"""Random histories of a log whose process is killed between any two changes of files, as in `test_log_machine` else."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from replog.log.retention import delete_old_segments
from tests.replog.log.batches import leader_batch
from tests.replog.log.kills import killed_after
from tests.replog.log.log_model import Batch
from tests.replog.log.test_log_machine import MACHINE_SETTINGS, Histories, places


class KilledHistories(Histories):
    follow_what_does_not_continue = become_leader = learn_high_watermark = read = look_up_a_timestamp = None

    @rule(
        what=st.sampled_from(["append", "truncate", "truncate fully", "roll", "retain", "flush", "close"]),
        calls=st.integers(0, 4) | st.integers(0, 15),
        place=places,
    )
    def be_killed_and_start(self, what: str, calls: int, place: tuple[str, float]) -> None:
        """Between any two changes of files: the log is what it was, or will be, or on the way there; no batch else."""
        model, log, offset = self.model, self.log, self.offset(place)
        epoch = max(self.leader_epoch, log.epochs.latest_epoch or 0)
        new = [leader_batch(model.log_end + number, epoch, b"k" * 60, timestamps=[1000]) for number in range(5)]
        retained = log.config.model_copy(update={"retention_bytes": 0})
        least = {"truncate": offset, "truncate fully": 0, "retain": model.log_end}.get(what, model.log_end)
        with killed_after(calls):
            if what == "append":
                log.append_as_follower(b"".join(new))
            elif what == "truncate":
                log.truncate_to(offset)
            elif what == "truncate fully":
                log.truncate_fully_and_start_at(offset)
            elif what == "roll":
                log.roll()
            elif what == "retain":
                log.config = retained
                delete_old_segments(log, 0)
            elif what == "flush":
                log.flush()
            else:
                log.close()
        log.abandon()
        self.open(clean=False)
        self.take_over([*model.batches, *(Batch.of(data, [1000]) for data in new)], least)

    def take_over(self, batches: list[Batch], least: int) -> None:
        """The model becomes what the log has: a run of `batches` that ends at `least` or later, or nothing."""
        log, model = self.log, self.model
        first, end = self.bases[0], log.log_end_offset
        kept = [batch for batch in batches if first <= batch.base and batch.last < end]
        stored = b"".join(segment.path.read_bytes() for segment in log.segments)
        assert stored == b"".join(batch.data for batch in kept)
        if kept:
            assert (kept[0].base, kept[-1].last + 1) == (first, end)
            assert end >= max((batch.last + 1 for batch in batches if batch.last < least), default=0)
        model.first_base, model.batches = first, kept
        model.forced_bases |= set(self.bases) | {end}
        model.log_start = log.log_start_offset
        assert model.log_start == max(self.checkpoints["log_start_offset"], first)
        model.high_watermark = min(max(self.checkpoints["high_watermark"], model.log_start), end)
        model.recovery_point = min(self.checkpoints["recovery_point"], end)
        self.forget_durable()


KilledHistories.TestCase.settings = MACHINE_SETTINGS
test_every_history_of_a_log_that_is_killed = KilledHistories.TestCase
