"""Kafka's list of topic settings, and which values Kafka itself takes."""

from pathlib import Path

from replog.config.topic import TopicConfig
from replog.controller.configs import checked_configs
from replog.errors import ReplogError
from tests.interop.kafka import Kafka

OUR_OWN = {"unclean.recovery.strategy"}  # KIP-966 without a release of Kafka that has it
INTERNAL = {"internal.segment.bytes"}  # of Kafka's own tests
ALIKE = [
    *(f"compression.type={word}" for word in ("producer", "uncompressed", "zstd", "lz4", "snappy", "gzip")),
    *(f"compression.type={word}" for word in ("none", "GZIP", "", "lzma")),
    *(f"compression.gzip.level={level}" for level in (-2, -1, 0, 1, 9, 10, "x")),
    *(f"compression.lz4.level={level}" for level in (0, 1, 17, 18)),
    *(f"compression.zstd.level={level}" for level in (-131073, -131072, 0, 22, 23)),
    *(f"preallocate={truth}" for truth in ("true", "FALSE", " true ", "yes", "1", "t", "")),
    *(f"segment.jitter.ms={number}" for number in (0, 9999999999999, -1)),
    *(f"segment.ms={number}" for number in ("+5", " 5 ", "05", "1_000", "5.0", "5e3", "0x5", "0", "", str(2**63))),
    *(f"local.retention.ms={number}" for number in (-3, -2, -1, 5)),
    *(f"local.retention.bytes={number}" for number in (-3, -2, 0)),
    *(
        f"{name}={truth}"
        for name in ("remote.log.copy.disable", "remote.log.delete.on.disable")
        for truth in ("true", "no")
    ),
    *(f"cleanup.policy={words}" for words in ("delete", "compact, delete", "delete,compact", "delete,delete", "none")),
    *(f"min.cleanable.dirty.ratio={ratio}" for ratio in ("0.5", ".5", "1e-1", "1.1", "0,5", "half")),
    *(f"flush.ms={number}" for number in (0, -1)),
    *(f"flush.messages={number}" for number in (0, 1)),
    *(f"min.insync.replicas={number}" for number in ("+1", "0", "2147483648")),
    *(f"message.timestamp.type={word}" for word in ("CreateTime", "LogAppendTime", "createtime")),
    *(f"leader.replication.throttled.replicas={text}" for text in ("*", "0:1,2:3", "none", "0-1")),
    *("message.format.version=3.0", "message.downconversion.enable=true", "x.y=1", "index.interval.bytes=-1"),
]
OTHERWISE = [  # Kafka takes them, and we refuse them
    "remote.storage.enable=true",  # so does a Kafka broker without tiered storage, in another place
    f"max.message.bytes={2**31 - 1}",  # no message of ours carries it
    "segment.index.bytes=12",
    "cleanup.policy=",
]
ONLY_OURS = ["segment.bytes=1024"]  # small segments for tests; Kafka has an internal setting for them


def is_taken(setting: str) -> bool:
    name, _, value = setting.partition("=")
    try:
        checked_configs({name: value}, TopicConfig, "test")
    except ReplogError:
        return False
    return True


def test_our_settings_are_kafkas_and_so_are_the_values_that_we_take(kafka: Kafka) -> None:
    asked = [*ALIKE, *OTHERWISE, *ONLY_OURS]
    program = Path(__file__).with_name("TopicSettings.java")
    printed = kafka.run(str(program), stdin="\n".join(asked) + "\n").splitlines()
    names, verdicts = set(printed[: -len(asked)]), printed[-len(asked) :]
    assert {field.alias for field in TopicConfig.model_fields.values()} - OUR_OWN == names - INTERNAL
    kafkas = {setting: verdict == "taken" for setting, verdict in zip(asked, verdicts, strict=True)}
    expected = {setting: is_taken(setting) for setting in ALIKE}
    assert {setting: kafkas[setting] for setting in ALIKE} == expected
    assert [(kafkas[setting], is_taken(setting)) for setting in OTHERWISE] == [(True, False)] * len(OTHERWISE)
    assert [(kafkas[setting], is_taken(setting)) for setting in ONLY_OURS] == [(False, True)] * len(ONLY_OURS)
