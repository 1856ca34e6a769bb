"""Audits that go on from others, on directories that grow between them; killed and started again."""

import json
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow.parquet as pq
import pytest

from replog.log.formats.batch import HEADER_SIZE
from replog.metadata.values import StandingAudit
from replog.topic import TopicPartition
from spark_jobs.audit.audit import audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED
from spark_jobs.audit.follow import STATE, Follower, FollowState, Round, read_state
from spark_jobs.audit.results import summary
from spark_jobs.audit.since import BadSaved, Saved
from spark_jobs.follow_replicas import main
from tests.spark_jobs.command import LIMIT_S, Command
from tests.spark_jobs.log_directories import BATCHES, END, batch

ORDERS = TopicPartition("orders", 0)


def wrong_in_3(replica: int, number: int) -> bytes:
    return batch(number, b"wrong" if replica == 3 else b"value")


def verified_to(saved: Saved | None) -> int:
    assert saved is not None
    return saved.partitions[ORDERS].verified_to


@pytest.mark.parametrize("level", ["deep", "index", "digest"])
def test_an_audit_since_another_compares_and_reads_what_is_new(spark, cluster, level):
    first = audit(spark, cluster.directories, level=level, save=True)
    assert (first.verdict, verified_to(first.saved)) == (CONSISTENT, END), first.findings
    cluster.extend("orders", BATCHES, 40)
    second = audit(spark, cluster.directories, level=level, since=first.saved, save=True)
    assert (second.verdict, verified_to(second.saved)) == (CONSISTENT, 80), second.findings
    assert second.taken is not None
    assert second.taken.starts == {ORDERS: END}
    assert second.taken.whole == {}
    assert summary(second)["since"] == ["orders-0: compared from offset 60 on"]
    if level != "digest":
        stage = "batches" if level == "deep" else "indexes"
        assert second.bytes_read[stage] < first.bytes_read[stage], (first.bytes_read, second.bytes_read)
    cluster.extend("orders", 40, 45, wrong_in_3)
    third = audit(spark, cluster.directories, level=level, since=second.saved, save=True)
    assert [(f.kind, f.wrong, f.first, f.last) for f in third.findings] == [("VALUE_MISMATCH", 3, 80, 89)]
    assert verified_to(third.saved) == 80, "a partition with a finding keeps what was verified before"


def test_what_was_verified_is_not_read_again_unless_it_does_not_fit(spark, cluster):
    first = audit(spark, cluster.directories, level="deep", save=True)
    cluster.patch(2, "orders", 24, HEADER_SIZE + 5, b"\xff")
    assert audit(spark, cluster.directories, level="deep", since=first.saved).verdict == CONSISTENT
    cluster.truncate(1, "orders", 50)
    again = audit(spark, cluster.directories, level="deep", since=first.saved)
    assert again.taken is not None
    assert again.taken.whole == {ORDERS: "replica 1 ends below 60, or was compacted there"}
    assert {(f.kind, f.wrong) for f in again.findings} == {("BIT_ROT", 2), ("COMMITTED_LOSS", 1)}


def test_rounds_tell_each_finding_once_until_it_is_repaired_and_one_that_was_cut_off_is_done_again(
    spark, cluster, tmp_path
):
    reported: list[Round] = []
    follower = Follower(spark, cluster.directories, [], "deep", tmp_path, reported.append)
    follower.round()
    cluster.extend("orders", BATCHES, 35, wrong_in_3)
    before = (tmp_path / STATE).read_bytes()
    follower.round()
    (tmp_path / STATE).write_bytes(before)  # its findings were written, and then the end came
    follower.round()
    follower.round()
    assert [(r.number, r.verdict, r.offsets, len(r.new), r.known) for r in reported] == [
        (0, CONSISTENT, 60, 0, 0),
        (1, DIVERGED, 10, 1, 0),
        (1, DIVERGED, 10, 1, 0),
        (2, DIVERGED, 10, 0, 1),
    ], reported
    assert verified_to(read_state(tmp_path).saved) == 60
    table = spark.read.parquet(str(tmp_path / "findings")).collect()
    assert [(row["class"], row["wrong_replica"], row["first_offset"], row["round"]) for row in table] == [
        ("VALUE_MISMATCH", 3, 60, 1)
    ]
    assert follower.verdict == DIVERGED


def test_it_ends_at_the_first_divergence_if_asked(spark, cluster, tmp_path):
    reported: list[Round] = []

    def notify(done: Round) -> None:
        reported.append(done)
        if len(reported) == 1:
            cluster.extend("orders", BATCHES, 35, wrong_in_3)

    reports: list[StandingAudit] = []
    follower = Follower(
        spark, cluster.directories, [], "deep", tmp_path / "follow", notify, until_diverged=True, report=reports.append
    )
    follower.run(0.5)
    assert [(r.number, r.verdict, r.offsets) for r in reported] == [(0, CONSISTENT, 60), (1, DIVERGED, 10)], reported
    assert [(r.verdict, r.diverged, dict(r.verified)) for r in reports] == [
        (CONSISTENT, (), {ORDERS: 60}),
        (DIVERGED, ("orders-0",), {ORDERS: 60}),
    ], reports


def round_with(following: Command, wanted: str) -> dict[str, Any]:
    """The next round in which `wanted` is not zero or empty."""
    deadline = monotonic() + LIMIT_S
    while monotonic() < deadline:
        done: dict[str, Any] = json.loads(following.line())
        assert done["error"] is None, done
        if done[wanted]:
            return done
    raise AssertionError(f"no round has {wanted}")


def verified_in_a_round(following: Command, directory: Path, wanted: int) -> FollowState:
    """The state once all replicas are verified to `wanted`. They grow one after the other, so that may take rounds."""
    rounds = [round_with(following, "offsets")]
    while verified_to((state := read_state(directory)).saved) < wanted:
        rounds.append(round_with(following, "offsets"))
    assert {done["verdict"] for done in rounds} == {CONSISTENT}, rounds
    return state


@pytest.mark.spark
def test_it_goes_on_where_it_was_killed_and_ends_in_order_when_interrupted(cluster, tmp_path, command):
    directory = tmp_path / "follow"
    words = ["follow", *cluster.options(), f"--checkpoint-dir={directory}", "--level=deep", "--master=local[2]"]
    words += ["--interval=1", "--format=json"]
    first = command(*words)
    assert round_with(first, "offsets")["offsets"] == END
    cluster.extend("orders", BATCHES, 40)
    before = verified_in_a_round(first, directory, 80)
    first.kill()
    cluster.extend("orders", 40, 45, wrong_in_3)
    second = command(*words)
    diverged = round_with(second, "new_findings")
    assert (diverged["offsets"], diverged["verdict"]) == (10, DIVERGED), diverged
    assert diverged["round"] > before.round
    assert [(f["class"], f["first_offset"]) for f in diverged["new_findings"]] == [("VALUE_MISMATCH", 80)]
    assert second.interrupted()[0] == 1
    (file,) = (directory / "findings" / f"round={diverged['round']}").iterdir()
    assert pq.read_table(file).num_rows == 1


def test_a_checkpoint_directory_without_its_state_is_refused(tmp_path):
    (tmp_path / "findings").mkdir()
    with pytest.raises(BadSaved, match=r"move .* aside to verify everything again"):
        read_state(tmp_path)
    assert read_state(tmp_path / "new") == FollowState()
    (tmp_path / "verified.json").write_text("{}")
    with pytest.raises(BadSaved, match=r"move .* aside"):
        read_state(tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--interval", "0"], "greater than or equal to 0.1"),
        (["--max-rounds", "0"], "greater than or equal to 1"),
        (["--level", "shallow"], "'shallow' is not one of"),
    ],
)
def test_bad_use_of_follow_exits_2(given, message, capsys):
    assert main(["--bootstrap-server", "localhost:9092", "--checkpoint-dir", "/tmp/none", *given]) == 2
    assert message in capsys.readouterr().err
