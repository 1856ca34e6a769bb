"""The one table of Kafka's APIs that brokers may serve, with the versions that they offer."""

from collections.abc import Mapping
from typing import NamedTuple


class Api(NamedTuple):
    """An API of Kafka's: its number, its name, and the versions that are served."""

    key: int
    name: str
    oldest: int
    newest: int


APIS: Mapping[int, Api] = {
    api.key: api
    for api in (
        Api(0, "Produce", 3, 13),  # ApiVersions says from 0, as Kafka's does: librdkafka wants to read that
        Api(1, "Fetch", 4, 17),
        Api(2, "ListOffsets", 1, 11),  # 11 has the bytes of 10
        Api(3, "Metadata", 0, 13),
        Api(18, "ApiVersions", 0, 4),
        Api(19, "CreateTopics", 2, 7),
        Api(20, "DeleteTopics", 1, 6),
        Api(21, "DeleteRecords", 0, 2),
        Api(22, "InitProducerId", 0, 5),
        Api(23, "OffsetForLeaderEpoch", 2, 4),
        Api(29, "DescribeAcls", 1, 3),
        Api(30, "CreateAcls", 1, 3),
        Api(31, "DeleteAcls", 1, 3),
        Api(32, "DescribeConfigs", 1, 4),
        Api(33, "AlterConfigs", 0, 2),
        Api(34, "AlterReplicaLogDirs", 1, 2),
        Api(35, "DescribeLogDirs", 1, 4),
        Api(37, "CreatePartitions", 0, 3),
        Api(43, "ElectLeaders", 0, 2),
        Api(44, "IncrementalAlterConfigs", 0, 1),
        Api(45, "AlterPartitionReassignments", 0, 1),
        Api(46, "ListPartitionReassignments", 0, 0),
        Api(48, "DescribeClientQuotas", 0, 1),
        Api(49, "AlterClientQuotas", 0, 1),
        Api(60, "DescribeCluster", 0, 2),
        Api(61, "DescribeProducers", 0, 0),
        Api(74, "ListConfigResources", 0, 1),
        Api(75, "DescribeTopicPartitions", 0, 0),
    )
}
