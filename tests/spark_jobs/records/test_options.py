"""Options by the names of Spark's Kafka source and sink, and what is refused."""

import pytest

from replog.client.offsets import EARLIEST, LATEST
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition
from spark_jobs.records import offsets_behind_latest
from spark_jobs.records.cluster import run
from spark_jobs.records.offsets import Bound, StreamOffset
from spark_jobs.records.options import SourceOptions, Subscription, sink_options, source_options
from spark_jobs.records.task import OffsetRange, _Reading
from spark_jobs.records.writer import _Writing

SERVERS = {"kafka.bootstrap.servers": "a:1, b:2"}
DIGITS = "9" * 5000  # more than Python's own parser takes
A, B = TopicPartition("flights", 0), TopicPartition("flights", 1)


def source(streaming: bool = False, **options: str) -> SourceOptions:
    return source_options({**SERVERS, "subscribe": "flights", **options}, streaming=streaming)


def test_a_batch_query_reads_everything_unless_told_otherwise():
    options = source(subscribe="flights,more")
    assert options.bootstrap == "a:1,b:2"
    assert options.subscription == Subscription(topics=("flights", "more"))
    assert options.starting == Bound("startingOffsets", everywhere=EARLIEST)
    assert options.ending == Bound("endingOffsets", everywhere=LATEST)
    assert options.fail_on_data_loss
    assert options.fail_on_bad_records
    assert not options.headers
    assert not options.read_committed
    assert options.consumer == {}


def test_names_are_taken_without_regard_to_case_and_values_without_space_around_them():
    options = source_options(
        {
            "KAFKA.Bootstrap.Servers": "a:1",
            "SUBSCRIBE": "flights",
            "startingOffsets": " Earliest ",
            "failondataloss": "FALSE",
            "failonbadrecords": "false",
            "includeHeaders": "True",
            "MaxOffsetsPerTrigger": "10",
            "minPartitions": "3",
            "maxRecordsPerPartition": "7",
            "kafkaConsumer.pollTimeoutMs": "1500",
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.bytes": "4096",
        },
        streaming=True,
    )
    assert options.starting.everywhere == EARLIEST
    assert (options.fail_on_data_loss, options.headers, options.max_offsets_per_trigger) == (False, True, 10)
    assert not options.fail_on_bad_records
    assert (options.min_partitions, options.max_records_per_partition, options.poll_timeout_s) == (3, 7, 1.5)
    assert options.consumer == {"isolation_level": "read_committed", "fetch_max_bytes": 4096}
    assert options.read_committed


@pytest.mark.parametrize(("text", "seconds"), [("1500", 1.5), ("2S", 2), ("15m", 900), ("1min", 60), ("1h", 3600)])
def test_a_trigger_waits_for_a_time_that_is_written_as_spark_does(text, seconds):
    assert source(streaming=True, maxTriggerDelay=text).max_trigger_delay_s == seconds
    assert source(streaming=True).max_trigger_delay_s == 900


@pytest.mark.parametrize(
    ("read", "latest", "metrics"),
    [
        ('{"t":{"0":5,"1":9},"@topicIds":{"t":"0a"}}', '{"t":{"0":15,"1":9,"2":3},"u":{"0":7}}', ("0", "10", "5.0")),
        ({"t": {"0": 5}}, {"t": {"0": 4}}, ("0", "0", "0.0")),
        ("None", "None", ()),
        ('{"t":{"0":5}}', "null", ()),
        ('{"t":{"0":5}}', '{"u":{"0":5}}', ()),
    ],
)
def test_a_progress_report_tells_how_far_a_query_is_behind(read, latest, metrics):
    names = [f"{which}OffsetsBehindLatest" for which in ("min", "max", "avg")][: len(metrics)]
    told = offsets_behind_latest({"endOffset": read, "latestOffset": latest})
    assert told == dict(zip(names, metrics, strict=True))


def test_partitions_can_be_assigned():
    options = source_options({**SERVERS, "assign": '{"flights":[1,0,1]}'}, streaming=False)
    assert options.subscription == Subscription(partitions=(A, B))


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [("fl.*s", ["flights", "my-flights"]), (" ^fl ", ["flights", "flight"]), ("^flight$", ["flight"])],
)
def test_a_pattern_is_found_anywhere_in_a_name(pattern, matched):
    wanted = source_options({**SERVERS, "subscribePattern": pattern}, streaming=False).subscription
    assert [topic for topic in ("flights", "flight", "my-flights", "other") if wanted.wants(topic)] == matched


def test_bounds_are_offsets_or_timestamps_and_timestamps_count_first():
    options = source(startingOffsets='{"flights":{"0":23,"1":-2}}', endingOffsets='{"flights":{"0":-1,"1":5}}')
    assert options.starting.of([A, B]) == {A: 23, B: EARLIEST}
    assert options.ending.of([A, B]) == {A: LATEST, B: 5}
    options = source(
        startingTimestamp="1000",
        startingOffsetsByTimestamp='{"flights":{"0":7,"1":8}}',
        startingOffsets="earliest",
        endingOffsetsByTimestamp='{"flights":{"0":7,"1":8}}',
        endingOffsets="latest",
        startingOffsetsByTimestampStrategy="LATEST",
    )
    assert options.starting.of([A, B]) == {A: 1000, B: 1000}
    assert options.ending.of([A, B]) == {A: 7, B: 8}
    assert options.starting.by_time
    assert options.ending.by_time
    assert options.latest_if_too_young


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"subscribePattern": "x"}, "give one of assign, subscribe, subscribePattern, not subscribe and subscribeP"),
        ({"subscribe": " , "}, "name at least one topic"),
        ({"subscribe": "a b"}, "a b"),
        ({"startingoffset": "earliest"}, "knows no option startingoffset; did you mean startingOffsets or "),
        ({"kafka.grup.id": "late"}, "knows no option kafka.grup.id; did you mean kafka.group.id or "),
        ({"kafka.sasl.mechanism": "PLAIN"}, "no SASL, so not kafka.sasl.mechanism; use TLS: kafka.security."),
        ({"sasl.jaas.config": "secret"}, "the source has no SASL, so not sasl.jaas.config; use TLS"),
        ({"startingOffsets": "latest"}, "a batch query that starts at the end reads nothing"),
        ({"startingOffsets": '{"flights":{"0":-1}}'}, "a batch query that starts at the end reads nothing"),
        ({"endingOffsets": "earliest"}, "reads nothing"),
        ({"endingOffsets": '{"flights":{"0":-2}}'}, "reads nothing"),
        ({"startingOffsets": "first"}, "give JSON such as"),
        ({"startingOffsets": '{"flights":{"0":-3}}'}, "numbers from -2 on"),
        ({"startingOffsets": '{"flights":{"x":1}}'}, "give JSON"),
        ({"startingOffsets": '{"flights":{"0":9223372036854775808}}'}, "give JSON"),
        ({"startingOffsetsByTimestamp": '{"flights":{"0":-1}}'}, "numbers from 0 on"),
        ({"startingTimestamp": "-5"}, "milliseconds since 1970"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "choose error or latest"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss=maybe: choose true or false"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger=0: give a whole number greater than 0"),
        ({"minOffsetsPerTrigger": "11", "maxOffsetsPerTrigger": "10"}, "minOffsetsPerTrigger=11: it is more than max"),
        ({"maxTriggerDelay": "1 m"}, "maxTriggerDelay=1 m: give a whole number and one of ms, s, m"),
        ({"minPartitions": DIGITS}, "give a whole number greater than 0"),
        ({"startingOffsets": f'{{"flights":{{"{DIGITS}":1}}}}'}, "give JSON"),
        ({"startingOffsets": f'{{"flights":{{"0":{DIGITS}}}}}'}, "give JSON"),
        ({"kafka.fetch.max.bytes": "1MB"}, "kafka.fetch.max.bytes=1MB: give a whole number"),
        ({"kafka.fetch.max.bytes": "2147483648"}, "give a whole number below 2^31"),
        ({"kafka.isolation.level": "all"}, "choose read_committed or read_uncommitted"),
        ({"kafka.bootstrap.servers": "nowhere"}, "bootstrap address"),
    ],
)
def test_what_cannot_be_right_is_refused_by_name(options, complaint):
    with pytest.raises(ReplogError) as caught:
        source(**options)
    assert complaint in str(caught.value)


def test_offsets_must_name_every_partition_and_no_other():
    with pytest.raises(ReplogError, match="it names flights-0; there are flights-0 flights-1"):
        Bound("startingOffsets", each={A: 5}).of([A, B])


@pytest.mark.parametrize("text", ["{}", "[1]", '{"flights":0}', '{"flights":["0"]}', '{"flights":[-1]}', "flights"])
def test_an_assignment_is_json_of_topics_and_partitions(text):
    with pytest.raises(ReplogError, match="give JSON such as"):
        source_options({**SERVERS, "assign": text}, streaming=False)


@pytest.mark.parametrize(("text", "complaint"), [(" ", "match every topic"), ("a(", "not a regular expression")])
def test_a_pattern_that_cannot_be_meant_is_refused(text, complaint):
    with pytest.raises(ReplogError, match=complaint):
        source_options({**SERVERS, "subscribePattern": text}, streaming=False)


def test_a_source_needs_servers_and_a_subscription():
    with pytest.raises(ReplogError, match=r"kafka\.bootstrap\.servers is missing"):
        source_options({"subscribe": "flights"}, streaming=False)
    with pytest.raises(ReplogError, match="give one of assign, subscribe, subscribePattern, not none"):
        source_options(SERVERS, streaming=False)


def test_a_streaming_query_starts_at_the_end_unless_told_otherwise_and_has_none():
    assert source(streaming=True).starting == Bound("startingOffsets", everywhere=LATEST)
    with pytest.raises(ReplogError, match="a streaming query has no end"):
        source(streaming=True, endingOffsets="latest")


def test_the_sinks_options_are_the_producers():
    options = sink_options(
        {
            **SERVERS,
            "topic": " flights ",
            "includeHeaders": "true",
            "checkpointLocation": "/tmp/x",
            "queryName": "x",
            "kafka.acks": "all",
            "kafka.enable.idempotence": "true",
            "kafka.linger.ms": "5",
            "kafka.compression.type": "zstd",
        }
    )
    assert options.topic == "flights"
    assert options.producer == {"linger_ms": 5, "compression": "zstd"}
    assert sink_options(SERVERS).topic is None


def test_what_changes_neither_what_is_read_nor_what_is_stored_is_taken_with_one_warning(caplog):
    idle = {
        "kafka.group.id": "mine",
        "groupIdPrefix": "mine",
        "kafka.client.id": "me",
        "kafka.max.poll.records": "5",
        "kafka.session.timeout.ms": "5",
        "fetchOffset.numRetries": "3",
        "fetchOffset.retryIntervalMs": "10",
        "kafka.retries": "0",
        "kafka.acks": "1",
        "enable.idempotence": "false",
    }
    for _ in range(2):
        assert source(**idle) == source(**{"kafka.linger.ms": "5"}) == source()
        assert sink_options({**SERVERS, **idle, "kafka.isolation.level": "read_committed"}) == sink_options(SERVERS)
    for line in caplog.messages:
        assert "; there are no consumer groups, clients retry by themselves" in line
    assert [line.split(";")[0] for line in caplog.messages] == [
        "without effect in the source: fetchoffset.numretries, fetchoffset.retryintervalms, groupidprefix, kafka.acks, "
        "kafka.client.id, kafka.enable.idempotence, kafka.group.id, kafka.max.poll.records, kafka.retries, "
        "kafka.session.timeout.ms",
        "without effect in the source: kafka.linger.ms",
        "without effect in the sink: fetchoffset.numretries, fetchoffset.retryintervalms, groupidprefix, kafka.acks, "
        "kafka.client.id, kafka.enable.idempotence, kafka.group.id, kafka.isolation.level, kafka.max.poll.records, "
        "kafka.retries, kafka.session.timeout.ms",
    ]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"kafka.transactional.id": "x"}, "the sink knows no option kafka.transactional.id"),
        ({"topic": "a/b"}, "a/b"),
        ({"topic": ""}, "topic name '' is empty"),
        ({"kafka.compression.type": "bzip2"}, "choose one of none, gzip, snappy, lz4, zstd"),
    ],
)
def test_a_sink_refuses_what_it_cannot_keep(options, complaint):
    with pytest.raises(ReplogError) as caught:
        sink_options({**SERVERS, **options})
    assert complaint in str(caught.value)


@pytest.mark.parametrize("option", ["kafka.batch.size", "kafka.max.request.size", "kafka.request.timeout.ms"])
def test_what_the_producer_refuses_is_told_by_the_name_of_the_option(option):
    with pytest.raises(ReplogError, match=f"{option}=0: choose 1 to "):
        run(_Writing(sink_options({**SERVERS, option: "0"})).open())


@pytest.mark.parametrize("option", ["kafka.fetch.max.bytes", "kafka.max.partition.fetch.bytes"])
def test_what_the_consumer_refuses_is_told_by_the_name_of_the_option(option):
    with pytest.raises(ReplogError, match=f"{option}=0: choose 1 to "):
        run(_Reading(source(**{option: "0"}), OffsetRange("flights", 0, "", 0, 1)).open())


def test_a_checkpoint_is_what_sparks_kafka_source_writes_and_the_topics_ids():
    at = StreamOffset({A: 5, B: 0}, {"flights": "0a"})
    assert at.to_json() == {"flights": {"0": 5, "1": 0}, "@topicIds": {"flights": "0a"}}
    assert StreamOffset.from_json(at.to_json()) == at
    assert StreamOffset.from_json({"flights": {"0": 5}}) == ({A: 5}, {})
    assert at.same_topic("flights", StreamOffset({A: 5}, {})), "one whose id is not known is taken for it"
    assert not at.same_topic("flights", StreamOffset({A: 5}, {"flights": "0b"}))


@pytest.mark.parametrize(
    "document",
    [{"flights": 5}, {"flights": {"0": -1}}, {"a b": {}}, {"@topicIds": {"flights": "xyz"}}, {"t": {"0": "1"}}],
)
def test_a_checkpoint_of_something_else_is_refused(document):
    with pytest.raises(ReplogError, match="the checkpoint's offset is not ours") as caught:
        StreamOffset.from_json(document)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_the_offset_of_a_query_can_start_another_one():
    options = source(startingOffsets='{"flights":{"0":5},"@topicIds":{"flights":"0a"}}')
    assert options.starting.of([A]) == {A: 5}
