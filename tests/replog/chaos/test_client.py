"""What clients wrote is the history that is judged."""

from replog.chaos.client import ACKNOWLEDGED, FAILED, LATEST, READ, SENT, Gathered, NoteWriter
from replog.chaos.verdict import Episode, table
from replog.simulator.checks.anomalies import find_anomalies
from replog.simulator.history import Drained, Outcome
from replog.topic import TopicPartition

STEADY = TopicPartition("steady", 0)


def send(writer: NoteWriter, number: int, at_s: float = 0.0) -> str:
    value = f"client-1.1:{number}"
    writer.write(SENT, "client-1.1", *STEADY, value, at_s)
    return value


def test_a_history_is_gathered_line_by_line(tmp_path):
    writer, gathered = NoteWriter(tmp_path / "client-1.1.notes"), Gathered(tmp_path)
    values = [send(writer, number, number) for number in range(3)]
    writer.write(ACKNOWLEDGED, values[1], 0, 2.5)
    writer.write(FAILED, values[0], True, "no answer", 3.0)
    gathered.gather()
    writer.write(ACKNOWLEDGED, values[2], 1, 2.75)
    writer.write(READ, "client-1.1", 1.0, 3.0, [["steady", 0, 0, values[1]], ["steady", 0, 1, values[2]]])
    writer.write(LATEST, "client-1.1", "steady", 0, 2, 3.0, 3.5)
    with (tmp_path / "client-1.1.notes").open("ab") as file:
        file.write(b'["sent", "client-1.1", "steady", 0, "client-1.1:3"')  # killed while it wrote
    gathered.gather()
    history = gathered.history
    assert [s.outcome for s in history.sends] == [Outcome.UNKNOWN, Outcome.OK, Outcome.OK]
    assert [s.offset for s in history.acknowledgements] == [0, 1]
    assert [latest.offset for latest in history.latest] == [2]
    assert gathered.positions == {"client-1.1": {STEADY: 2}}
    assert gathered.acknowledged_at == {"client-1.1": {STEADY: 2.0}}
    history.drained[STEADY] = Drained(STEADY, 0, 2, ((0, values[1].encode()), (1, values[2].encode())))
    assert find_anomalies(history) == []


def test_a_record_that_is_not_there_in_the_end_is_found(tmp_path):
    writer, gathered = NoteWriter(tmp_path / "client-1.1.notes"), Gathered(tmp_path)
    for number in range(2):
        writer.write(ACKNOWLEDGED, send(writer, number), number, 1.0)
    gathered.gather()
    gathered.history.drained[STEADY] = Drained(STEADY, 0, 1, ((0, b"client-1.1:0"),))
    assert {anomaly.name for anomaly in find_anomalies(gathered.history)} >= {"unseen"}


def test_unavailability_is_the_longest_wait_of_what_was_sent_meanwhile(tmp_path):
    writer, gathered = NoteWriter(tmp_path / "client-1.1.notes"), Gathered(tmp_path)
    for number, (sent, answered) in enumerate([(0.0, 9.0), (1.0, 3.0), (2.0, 6.0), (9.0, 99.0)]):
        writer.write(ACKNOWLEDGED, send(writer, number, sent), number, answered)
    writer.write(FAILED, send(writer, 4, 2.0), False, "refused", 3.0)
    gathered.gather()
    episode = Episode.of("kill a broker", 1.0, 4.0, 5.0, gathered.history.sends)
    assert (episode.longest_wait_s, episode.acknowledged, episode.failed) == (4.0, 2, 1)
    worse = Episode("pause a broker", 1.0, 2.0, 3.0, 7.0, 1, 0)
    rows = table([episode, episode, worse]).splitlines()[2:]
    assert rows == [
        "| pause a broker | 1 | 1.0 | 7.0 | 7.0 | 1.0 | 0 |",
        "| kill a broker | 2 | 3.0 | 4.0 | 4.0 | 1.0 | 2 |",
    ]
