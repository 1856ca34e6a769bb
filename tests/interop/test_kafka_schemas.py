"""Our schemas are Kafka's, and so are the versions that are served."""

from replog.kafka.schema import SCHEMAS
from replog.kafka.versions import APIS
from tests.interop.kafka import VERSION, Kafka, cache_directory
from tests.interop.kafka_schemas import newest_version, schemas


def test_the_schemas_are_what_the_script_makes_of_the_jar(kafka: Kafka):
    stored = {path.name: path.read_text() for path in SCHEMAS.glob("*.txt")}
    assert stored == schemas(cache_directory() / f"kafka-clients-{VERSION}.jar")


def test_no_version_is_served_that_kafka_does_not_have(kafka: Kafka):
    jar = cache_directory() / f"kafka-clients-{VERSION}.jar"
    later = {api.name: api.newest for api in APIS.values() if api.newest > newest_version(jar, f"{api.name}Request")}
    assert later == {"ListOffsets": 11}, "4.2 has that, with the fields of 10"
