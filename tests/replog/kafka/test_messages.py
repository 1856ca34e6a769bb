"""Messages by their names, and the types that are generated of them."""

import ast

import pytest

from replog.kafka import generate, messages
from replog.kafka.messages import CreatePartitionsRequestTopic, FetchResponsePartition, MetadataRequest


def test_the_types_are_those_of_the_schemas():
    assert generate.TARGET.read_text() == generate.types(), "run `make generate`"


def test_a_message_has_the_fields_that_type_checkers_know():
    classes = [node for node in ast.parse(generate.types()).body if isinstance(node, ast.ClassDef)]
    assert len(classes) > 100
    for node in classes:
        names = tuple(line.target.id for line in node.body if isinstance(line, ast.AnnAssign))
        assert getattr(messages, node.name)._fields == names


def test_fields_have_defaults():
    assert MetadataRequest().allow_auto_topic_creation is True
    assert MetadataRequest().topics is None
    assert FetchResponsePartition().preferred_read_replica == -1
    assert FetchResponsePartition().current_leader.leader_epoch == -1


def test_a_field_is_not_named_as_a_method_is():
    assert CreatePartitionsRequestTopic(name="t", count_=3).count(3) == 1


def test_a_name_that_kafka_does_not_have_is_refused():
    with pytest.raises(AttributeError, match="MetadataQuestion"):
        messages.MetadataQuestion  # noqa: B018
    with pytest.raises(AttributeError, match="NothingRequest"):
        messages.NothingRequest  # noqa: B018
