"""A Kafka broker that was stopped, given partition directories that replog wrote, and started again."""

import pytest

from replog.log.files.names import LOG_SUFFIX
from tests.interop.history import AFTERWARDS
from tests.interop.our_logs import Expected

pytestmark = pytest.mark.processes


def consumed(line: str) -> Expected:
    timestamp, offset, headers, key, value = line.split("\t")
    return Expected(
        int(timestamp.removeprefix("CreateTime:")), int(offset.removeprefix("Offset:")), headers, key, value
    )


def test_kafka_serves_every_record_as_it_was_sent(history):
    """All codecs, keys, values, headers and timestamps; by Kafka's own consumer."""
    assert [consumed(line) for line in history.consumed["ours-codecs"]] == history.sent


def test_kafka_serves_what_our_cleaner_left(history):
    records = [consumed(line) for line in history.consumed["ours-compacted"]]
    assert records == history.compacted
    latest: dict[str, str] = {record.key: record.value for record in records}
    values = {key: value for key, value in history.our_latest.items() if value != "null"}
    assert {key: value for key, value in latest.items() if value != "null"} == values


def test_kafka_follows_our_transactions(history):
    """READ_COMMITTED by our transaction indexes and producer snapshots: no aborted record, and none behind the open
    transaction."""
    everything, committed = history.in_transactions
    assert [consumed(line).offset for line in history.consumed["ours-transactions"]] == everything
    assert [consumed(line).offset for line in history.consumed["committed"]] == committed


def test_kafka_takes_our_files_for_sound(history):
    """It rebuilds an index or a snapshot that it does not trust; ours were all as replog had left them."""
    for topic in ("ours-codecs-0", "ours-compacted-0", "ours-transactions-0"):
        sealed = sorted((history.ours / topic).glob(f"*{LOG_SUFFIX}"))[:-1]
        assert len(sealed) > 2
        kept = [path for log in sealed for path in log.parent.glob(f"{log.stem}.*") if path.suffix != ".deleted"]
        for path in kept:
            assert (history.crashed / topic / path.name).read_bytes() == path.read_bytes(), path


def test_kafka_goes_on_where_our_log_ended(history):
    active = sorted((history.crashed / "ours-codecs-0").glob(f"*{LOG_SUFFIX}"))[-1]
    assert active.stat().st_size > AFTERWARDS * 50
    epochs = (history.crashed / "ours-codecs-0" / "leader-epoch-checkpoint").read_text().split("\n")
    assert epochs[2] == "0 0"
    assert epochs[3].endswith(f" {len(history.sent)}")
