"""A finding explained: the bytes around it, without Spark."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replog.log.formats.batch import HEADER_SIZE
from spark_jobs.audit.findings import AuditFinding, Evidence
from spark_jobs.audit.report import finding_record
from spark_jobs.explain_finding import explain, main, read_report
from tests.damage.vocabulary import overwrite
from tests.spark_jobs.log_directories import Cluster, batch


def finding(kind: str, wrong: int | None, first: int, *evidence: Evidence) -> dict[str, Any]:
    told = AuditFinding(
        kind, "orders", 0, (1, 2, 3), first, first + 1, wrong, "the reason [of it]", "the remedy", evidence
    )
    return finding_record(told)


def seen(replica: int, file: Path, position: int) -> Evidence:
    return Evidence(replica, str(file), position, "what was seen")


def report(cluster: Cluster, *findings: dict[str, Any]) -> dict[str, Any]:
    places = {str(replica): [str(directory)] for replica, directory in cluster.directories.items()}
    return {"verdict": "DIVERGED", "complete": True, "findings": findings, "where": {"directories": places}}


def written(tmp_path: Path, content: dict[str, Any]) -> Path:
    (tmp_path / "summary.json").write_text(json.dumps(content))
    return tmp_path


def test_bit_rot_is_shown_beside_a_sound_copy_with_the_first_wrong_byte_marked(cluster):
    cluster.patch(2, "orders", 24, HEADER_SIZE + 5, b"\xff")
    path, position, _ = cluster.locate(2, "orders", 24)
    told = report(cluster, finding("BIT_ROT", 2, 24, seen(2, path, position)))
    told["where"]["directories"]["2"] = ["/none/before", str(cluster.directories[2]), "/none/after"]  # these are gone
    shown = explain(told, 1)
    assert [column["replica"] for column in shown["headers"]] == [1, 2, 3]
    assert [column["fields"]["isValid"] for column in shown["headers"]] == [True, False, True]
    assert {column["fields"]["baseOffset"] for column in shown["headers"]} == {24}
    assert shown["differs"] == ["crcComputed", "isValid"]
    suspect, sound = shown["bytes"]
    assert (suspect["replica"], suspect["first_difference"], suspect["differing"]) == (2, HEADER_SIZE + 5, 1)
    at = HEADER_SIZE + 5 - suspect["from"]
    assert bytes.fromhex(suspect["hex"])[at] == 0xFF != bytes.fromhex(sound["hex"])[at]
    assert suspect["file"] == str(path)
    assert shown["meaning"].startswith("Stored bytes changed")


def test_replicas_with_other_values_differ_in_crc_and_epoch_side_by_side(cluster):
    cluster.build(3, "orders", changed=lambda n: batch(n, b"wrong" if n == 10 else b"value"), epochs=lambda n: 7)
    shown = explain(report(cluster, finding("VALUE_MISMATCH", 3, 20)), 1)
    assert {"crc", "crcComputed", "partitionLeaderEpoch"} <= set(shown["differs"])
    assert "isValid" not in shown["differs"]
    covering = [[entry["epoch"] for entry in held["entries"] if entry["covers"]] for held in shown["epochs"]]
    assert covering == [[1], [1], [7]]


def test_bytes_that_are_no_batch_are_shown_raw(cluster):
    cluster.patch(3, "orders", 24, 16, b"\x09")  # magic
    path, position, _ = cluster.locate(1, "orders", 24)
    file = cluster.path(3, "orders") / path.name
    shown = explain(report(cluster, finding("BIT_ROT", 3, 24, seen(3, file, position))), 1)
    (rotten,) = [column for column in shown["headers"] if column["replica"] == 3]
    assert "magic 9" in rotten["note"]
    assert rotten["fields"]["magic"] == 9
    assert shown["bytes"][0]["first_difference"] == 16


def test_offsets_that_a_replica_lacks_say_so(cluster):
    cluster.truncate(2, "orders", 50)
    shown = explain(report(cluster, finding("COMMITTED_LOSS", 2, 50)), 1)
    (lacking,) = [column for column in shown["headers"] if column["replica"] == 2]
    assert lacking["fields"] is None
    assert "no batch with offset 50" in lacking["note"]


def test_a_lying_index_entry_is_shown_among_its_neighbours_with_what_the_log_says(cluster):
    index = sorted(cluster.path(2, "orders").glob("*.index"))[1]
    overwrite(index, 8 + 7, b"\x01")
    shown = explain(report(cluster, finding("INDEX_LIE", 2, 24, seen(2, index, 8))), 1)
    (told,) = shown["indexes"]
    (suspect,) = [entry for entry in told["entries"] if entry["suspect"]]
    assert suspect["entry"] == 1
    assert suspect["log"].startswith("no batch")
    others = [entry for entry in told["entries"] if not entry["suspect"]]
    assert others
    assert all(entry["log"].endswith(f"to {entry['offset']}") for entry in others), others


@pytest.mark.parametrize(("suffix", "size"), [("timeindex", 12), ("digest", 12)])
def test_time_and_digest_entries_are_held_against_the_log(cluster, suffix, size):
    path = sorted(cluster.path(1, "orders").glob(f"*.{suffix}"))[1]
    (told,) = explain(report(cluster, finding("INDEX_LIE", 1, 24, seen(1, path, size))), 1)["indexes"]
    field = "digest" if suffix == "digest" else "timestamp"
    assert len(told["entries"]) > 2
    assert all(entry["log"].endswith(str(entry[field])) for entry in told["entries"]), told


def test_what_is_gone_since_the_audit_is_said_to_be(cluster):
    path, position, _ = cluster.locate(2, "orders", 24)
    index = path.with_suffix(".index")
    for each in path.parent.glob(f"{path.stem}.*"):
        each.unlink()
    shown = explain(report(cluster, finding("BIT_ROT", 2, 24, seen(2, path, position), seen(2, index, 0))), 1)
    assert "gone since the audit" in str([column["note"] for column in shown["headers"]])
    assert shown["indexes"][0]["note"] == "the segment is gone since the audit"


def test_the_command_lists_findings_then_shows_one(cluster, tmp_path, capsys):
    cluster.patch(2, "orders", 24, HEADER_SIZE + 5, b"\xff")
    path, position, _ = cluster.locate(2, "orders", 24)
    directory = written(tmp_path, report(cluster, finding("BIT_ROT", 2, 24, seen(2, path, position))))
    assert main(["--report-dir", str(directory)]) == 0
    listed = capsys.readouterr().out
    assert "BIT_ROT" in listed
    assert "24 to 25" in listed
    assert main(["--report-dir", str(directory), "1"]) == 0
    told = capsys.readouterr().out
    for words in ("the reason [of it]", "the remedy", "crcComputed", f"{position + HEADER_SIZE + 5} of the file", "≠"):
        assert words in told, told
    assert len(told.splitlines()) < 80, told
    assert main(["--report-dir", str(directory), "1", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == explain(read_report(directory), 1)


@pytest.mark.parametrize(
    ("content", "number", "message"),
    [
        (None, [], "audit with --report-dir first"),
        ("{", [], "audit again"),
        ('{"findings": [{}]}', [], "audit again"),
        ('{"findings": [], "where": {"directories": {}}}', ["1"], "there is no finding 1: the report has none"),
        ('{"findings": [], "where": {"directories": {}}}', ["-1"], "there is no finding -1"),
    ],
)
def test_a_report_that_cannot_be_used_is_bad_use(tmp_path, capsys, content, number, message):
    if content is not None:
        (tmp_path / "summary.json").write_text(content)
    assert main(["--report-dir", str(tmp_path), "--", *number]) == 2
    assert message in capsys.readouterr().err


def test_an_explanation_needs_neither_spark_nor_arrow():
    code = (
        "import sys, spark_jobs.explain_finding, spark_jobs.audit.text; "
        "print([m for m in ('pyspark', 'pyarrow', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"
