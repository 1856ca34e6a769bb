"""A survey travels as a file from the host of a broker; who reads it believes nothing that is not whole."""

import json
import os

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.log_tools.survey import MAX_LINE, Survey, SurveyedReplica, read_survey_file, survey_lines
from replog.topic import TopicPartition

ID = bytes(range(16))
SURVEYS = [
    Survey(
        "c", 7, [SurveyedReplica(TopicPartition("a-b", n), ID, n - 1, 90 + n, n, -1, n > 1) for n in range(3)], [], 41
    ),
    Survey(
        "c", 7, [SurveyedReplica(TopicPartition("z", 19_999), ID, 1 << 30, 1 << 62, 1 << 30, 1 << 62, True)], ["so"], 0
    ),
    Survey("c", 7, [], ["\u2028 two\nlines"], 42),
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "7.survey"
    path.write_text("".join(f"{line}\n" for line in survey_lines(SURVEYS, 1_700_000_000_000)))
    return path


def check_refused(path, word):
    with pytest.raises(ReplogError, match=word) as caught:
        read_survey_file(path)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert str(path) in caught.value.message


def test_what_was_written_is_read(file):
    assert read_survey_file(file) == [told._replace(written_ms=1_700_000_000_000) for told in SURVEYS]


def test_of_a_file_that_was_cut_off_anywhere_or_goes_on_nothing_is_believed(file):
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        check_refused(file, "replog log survey")
    for more in (b"\n", whole):
        file.write_bytes(whole + more)
        check_refused(file, "goes on")


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (0, "replog_survey", 1),  # it did not say what is compacted
        (0, "replog_survey", 3),
        (0, "cluster_id", ""),
        (0, "cluster_id", 5),
        (0, "broker_id", -1),
        (0, "broker_id", 1 << 31),
        (0, "written_ms", "now"),
        (0, "directories", 0),
        (0, "directories", 10**9),
        (1, "replicas", 10**9),
        (1, "replicas", 2),
        (1, "replicas", True),
        (1, "metadata_version", "41"),
        (1, "log_dirs", -1),
        (1, "metadata_version", 1 << 63),
        (2, "replica", "../../etc-0"),
        (2, "replica", None),
        (2, "replica", "a-b-1"),
        (2, "topic_id", "00"),
        (2, "topic_id", "x" * 32),
        (2, "last_epoch", -2),
        (2, "last_epoch", 1.5),
        (2, "seen_epoch", 1 << 31),
        (2, "log_end_offset", 1 << 63),
        (2, "compacted", 1),
        (2, "compacted", None),
    ],
)
def test_what_cannot_be_is_refused_by_its_line(file, line, name, value):
    lines = file.read_text().splitlines(keepends=True)
    lines[line] = json.dumps(json.loads(lines[line]) | {name: value}) + "\n"
    file.write_text("".join(lines))
    check_refused(file, "line")


@pytest.mark.parametrize(
    "content", [b"", b"[]\n", b"[" * (MAX_LINE - 1) + b"\n", b"{" * 10**6, b"\xff\n", b"null\n", os.urandom(4000)]
)
def test_anything_else_is_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    check_refused(tmp_path / "file", "line 1")


def test_one_file_is_of_one_broker():
    with pytest.raises(ReplogError, match="2 brokers"):
        list(survey_lines([SURVEYS[0], SURVEYS[1]._replace(broker_id=8)], 1))
