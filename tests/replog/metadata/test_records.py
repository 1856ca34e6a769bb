"""Changes as records and back; and the bytes, which stores and brokers of earlier releases must go on understanding."""

from dataclasses import replace

import pytest

from replog.common.acl import Acl, Operation, PatternType, Permission, ResourceType
from replog.errors import ErrorCode, ReplogError
from replog.metadata.acl_table import AclTable
from replog.metadata.changes import Change, parse_key
from replog.metadata.image import MetadataImage
from replog.metadata.records import acl_to_binding, all_known, change_of, record_of
from replog.metadata.values import BrokerRegistration, PartitionState, StandingAudit, Topic
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.topic import TopicPartition

BROKER = BrokerRegistration(7, 12, b"0123456789abcdef", "h7:9092", "r", True, False)
NEWER = replace(BROKER, software_version="0.1.0")
MOVING = PartitionState((2, 1, 3), (2, 1), 2, 5, 9, (3,), -1, True, (3,), (1,))
ALONE = PartitionState((1,), (), -1, 5, 9, (), 1)
ACL = Acl(ResourceType.TOPIC, "t.", PatternType.PREFIXED, "User:a", "*", Operation.READ, Permission.DENY)
AUDIT = StandingAudit("DIVERGED", "deep", 7, ((TopicPartition("t.x", 3), 70),), 9, ("t.x-1",), 1, 5)

WRITTEN = [
    (Change("cluster", None, "c"), "cluster", "1a030a0163"),
    (
        Change("broker", 7, BROKER),
        "broker/7",
        "22240807100c1a1030313233343536373839616263646566220768373a393039322a01723001",
    ),
    (
        Change("broker", 7, NEWER),
        "broker/7",
        "222b0807100c1a1030313233343536373839616263646566220768373a393039322a017230015205302e312e30",
    ),
    (Change("broker_config", 7, {"a": "1"}), "broker-config/7", "420a080712060a0161120131"),
    (
        Change("topic", "t.x", Topic("t.x", b"t" * 16, {"retention.ms": "5"})),
        "topic/t.x",
        "2a2a0a03742e781210747474747474747474747474747474741a110a0c726574656e74696f6e2e6d73120135",
    ),
    (
        Change("partition", TopicPartition("t.x", 3), MOVING, b"t" * 16),
        "partition/t.x/3",
        "32350a03742e7812107474747474747474747474747474747418032203020103"
        "2a020201320103380440014805500958016201036a0101",
    ),
    (
        Change("partition", TopicPartition("t.x", 0), ALONE, b"t" * 16),
        "partition/t.x/0",
        "32220a03742e781210747474747474747474747474747474742201013801400248055009",
    ),
    (Change("producer_ids", None, 3000), "producer-ids", "3a0308b817"),
    (Change("collected", None, 11), "collected", "4a02080b"),
    (Change("client_quota", "User:a", {"a": "1"}), "client-quota/User:a", "62100a06557365723a6112060a0161120131"),
    (
        Change("acl", "61" * 16, ACL),
        "acl/" + "61" * 16,
        "522b0a1061616161616161616161616161616161121708021202742e18042206557365723a612a012a30033802",
    ),
    (
        Change("audit", None, AUDIT),
        "audit",
        "6a2a0a084449564552474544120464656570180720052a090a03742e781003184630093a05742e782d314001",
    ),
    (Change("topic", "t.x", None), "topic/t.x", ""),
    (Change("partition", TopicPartition("t.x", 3), None), "partition/t.x/3", ""),
    (Change("broker", 7, None), "broker/7", ""),
]


@pytest.mark.parametrize(("change", "key", "value"), WRITTEN, ids=lambda part: part if isinstance(part, str) else "")
def test_a_change_is_written_as_it_always_was_and_read_back(change, key, value):
    numbered = change._replace(version=14)
    written = record_of(numbered).SerializeToString()
    head = bytes([8, 14, 18, len(key)]) + key.encode()
    assert written == head + bytes.fromhex(value)
    assert change_of(MetadataRecord.FromString(written)) == numbered


@pytest.mark.parametrize("change", [change for change, _, _ in WRITTEN], ids=lambda change: change.key)
def test_a_key_names_its_kind_and_its_name(change):
    """All that a deletion has."""
    assert parse_key(change.key) == (change.kind, change.name)


def later(key, version):
    """A record with a value that this release does not know."""
    head = MetadataRecord(version=version, key=key).SerializeToString()
    return MetadataRecord.FromString(head + b"\xa2\x06\x03abc")  # field 100


@pytest.mark.parametrize("record", [later("delegation-token/7", 9), MetadataRecord(version=9, key="broker/seven")])
def test_a_kind_that_only_a_later_release_knows_changes_nothing_but_the_version_and_who_decides_refuses_it(record):
    image = MetadataImage()
    image.put(change_of(record))
    assert (image.version, image.brokers) == (9, {})
    with pytest.raises(ReplogError, match=rf"'{record.key}', of a later release .* install that one here") as refused:
        all_known(record)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


STATE = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
CANNOT_BE = [
    Change("topic", "../../t", Topic("../../t", b"i" * 16, {}), version=9),
    Change("topic", "t", Topic("t", b"short", {}), version=9),
    Change("topic", "t", Topic("t", bytes(16), {}), version=9),
    Change("partition", TopicPartition("t", -1), STATE, b"i" * 16, version=9),
    Change("partition", TopicPartition("t", 0), replace(STATE, replicas=()), b"i" * 16, version=9),
    Change("partition", TopicPartition("t", 0), STATE, b"", version=9),
]


@pytest.mark.parametrize("change", CANNOT_BE, ids=str)
def test_a_topic_or_partition_that_cannot_be_changes_nothing_and_who_decides_refuses_it(change):
    """As a damaged store has it. A broker would write outside its log directories, or end."""
    image = MetadataImage()
    image.put(change_of(record_of(change)))
    assert (image.version, image.topics, image.partitions) == (9, {}, {})
    with pytest.raises(ReplogError, match=r"damaged; .* restore a copy"):
        all_known(record_of(change))


def test_a_value_that_only_a_later_release_can_read_is_not_taken_for_a_deletion():
    """A broker would delete the topic's records."""
    assert change_of(MetadataRecord(version=9, key="topic/t")).value is None
    with pytest.raises(ReplogError, match=r"'topic/t', of a later release"):
        change_of(later("topic/t", 9))


def test_settings_are_read_as_if_they_were_stored_today():
    """0.1.0 stored what was typed, under the names of fields, too."""
    odd = Topic("t", b"i" * 16, {"retention_ms": "1_000", "later": "x", "max.message.bytes": "2000.0"})
    changes = [
        (Change("topic", "t", odd), {"retention.ms": "1000", "later": "x", "max.message.bytes": "2000"}),
        (Change("broker_config", 7, {"cordoned_log_dirs": "*"}), {"cordoned.log.dirs": "*"}),
        (Change("client_quota", "User:a", {"producer_byte_rate": "5.0"}), {"producer_byte_rate": "5"}),
    ]
    for change, expected in changes:
        read = change_of(record_of(change)).value
        assert (read.configs if isinstance(read, Topic) else read) == expected


def test_an_acl_in_words_of_a_later_release_is_kept_and_applies_to_nothing():
    """Nobody who follows the metadata fails because of it, and it can be listed and removed."""
    table = AclTable()
    for place, word in enumerate(("resource_type", "pattern_type", "operation", "permission_type")):
        record = record_of(Change("acl", f"{place:032}", ACL._replace(permission=Permission.ALLOW), version=place + 1))
        setattr(record.acl.acl, word, 77)
        acl = change_of(record).value
        table.put(f"{place:032}", acl)
        assert acl_to_binding(acl) == record.acl.acl
        assert "UNKNOWN_77" in str(acl)
    ask = (ACL.principal, "10.0.0.7", ACL.operation, ACL.resource_type)
    assert not table.verdict(*ask, ACL.resource_name).allowed
    assert not table.allows_any(*ask)
    for acl_id in list(table.by_id):
        table.put(acl_id, None)
    assert not table.ids
