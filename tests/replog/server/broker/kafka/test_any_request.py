"""Whatever a request says, if it parses it is answered: no handler has a defect, and no connection ends."""

import random
from typing import Any

import pytest

from replog.errors import ErrorCode
from replog.kafka import messages
from replog.kafka.schema import Field, Struct, read_schema
from replog.server.broker.kafka.handlers import served
from tests.replog.server.broker.conftest import batch, eventually
from tests.replog.server.broker.kafka.client import connected

REQUESTS = 700
NAMES = ("t", "t", "t", "", "x" * 300, "nope", "User:a", "1", "retention.ms", "yes")
NUMBERS = (0, 1, 2, -1, -2, -3, 5, 1000)
RECORDS = (b"", batch(b"x"), batch(b"x", b"y"), bytes(70), 2 * batch(b"x"), batch(b"a")[:40])


class AnyRequest:
    def __init__(self, rng: random.Random, topic_id: bytes, version: int) -> None:
        self._rng = rng
        self._ids = topic_id, bytes(16), b"\7" * 16
        self._version = version

    def of(self, struct: Struct) -> Any:
        fields = {field.name: self._value(field) for field in struct.fields if self._version in field.versions}
        return getattr(messages, struct.name)(**fields)

    def _value(self, field: Field) -> Any:
        if self._version in field.nullable and self._rng.random() < 0.2:
            return None
        if field.many:
            return [self._one(field) for _ in range(self._rng.choice((0, 1, 1, 2, 3)))]
        return self._one(field)

    def _one(self, field: Field) -> Any:
        if field.struct is not None:
            return self.of(field.struct)
        if field.name.endswith(("timeout_ms", "wait_ms")):
            return self._rng.choice((0, 1, -1, 20))
        if field.kind.startswith(("int", "uint")):
            bits, signed = int(field.kind.lstrip("uint")), field.kind[0] == "i"
            edges = (2 ** (bits - signed) - 1, -signed * 2 ** (bits - 1))
            return self._rng.choice([n for n in (*NUMBERS, *edges) if edges[1] <= n <= edges[0]])
        choices = {
            "string": NAMES,
            "uuid": self._ids,
            "bytes": RECORDS,
            "records": RECORDS,
            "bool": (False, True),
            "float64": (0.0, -1.0, 1e300, float("nan"), float("inf"), 1000.5),
        }
        return self._rng.choice(choices[field.kind])


@pytest.mark.parametrize("seed", range(2))
async def test_every_request_that_parses_is_answered(cluster, seed, caplog):
    await cluster.begin(2, 2)
    rng, topic_id = random.Random(seed), cluster.controller.state.image.topics["t"].topic_id
    async with connected(cluster.brokers[1].address) as client:
        for _ in range(REQUESTS):
            api = rng.choice(list(served().values()))
            version = rng.randint(api.oldest, api.newest)
            request = AnyRequest(rng, topic_id, version).of(read_schema(api.name)[0])
            if api.name == "Produce" and request.acks == 0:
                continue  # it has no answer
            if api.name == "Fetch":
                request = request._replace(session_epoch=rng.choice((0, -1, 1)), session_id=rng.choice((0, 1, 2)))
            answer = await client.ask(request, version)
            defect = f"error_code={int(ErrorCode.UNKNOWN_SERVER_ERROR)},"
            assert defect not in str(answer).replace(")", ","), request
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    await eventually(lambda: cluster.brokers[1].manager.sessions.answers.used == 0)
