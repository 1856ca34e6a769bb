"""ApiVersions 0–4: the APIs and versions of this listener. A later version gets that of 0, and error 35 (KIP-511)."""

import re
from functools import cache

from replog.errors import ErrorCode
from replog.kafka.codec import encode_response
from replog.kafka.frames import API_VERSIONS, PRODUCE
from replog.kafka.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiKey,
    ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseSupportedFeature,
)
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.handlers import served
from replog.server.broker.kafka.service import KafkaService

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]{0,198}[a-zA-Z0-9])?")
_FEATURE, _OLDEST, _LEVEL = "metadata.version", 7, 27  # 3.3-IV3, and that of Kafka 4.1: tools ask for it


def serve(_service: KafkaService, call: Call) -> None:
    request: ApiVersionsRequest = call.message
    said = (request.client_software_name, request.client_software_version)
    is_wrong = call.version >= 3 and not all(map(_SOFTWARE.fullmatch, said))
    call.answer(_body(call.version, ErrorCode.INVALID_REQUEST if is_wrong else ErrorCode.NONE))


def unknown_version() -> bytes:
    """Return the answer to a version that is not served: every client reads that of 0."""
    return _body(0, ErrorCode.UNSUPPORTED_VERSION)


@cache
def _body(version: int, error: ErrorCode) -> bytes:
    response = ApiVersionsResponse(
        error_code=error,
        api_keys=[
            # librdkafka looks for Produce from 0 on, as Kafka says; 0 to 2 are refused there as well
            ApiVersionsResponseApiKey(key, 0 if key == PRODUCE else api.oldest, api.newest)
            for key, api in sorted(served().items())
        ],
        supported_features=[ApiVersionsResponseSupportedFeature(_FEATURE, _OLDEST, _LEVEL)],
        finalized_features_epoch=0,
        finalized_features=[ApiVersionsResponseFinalizedFeature(_FEATURE, _LEVEL, _LEVEL)],
    )
    return b"".join(encode_response(API_VERSIONS, version, response))
