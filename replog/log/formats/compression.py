"""The codecs of the records section (2.4): Kafka's framings both ways, and a limit on the uncompressed size."""

import gzip
import struct

import cramjam

from replog.common.buffers import unwritten
from replog.log.errors import InvalidRecord

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_UNCOMPRESSED_BYTES = 1 << 28  # one batch's; that is 256 times what a broker takes by default, compressed

_STREAMS = {1: cramjam.gzip, 3: cramjam.lz4, 4: cramjam.zstd}
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16  # the magic, a version and the oldest version that can read this
_XERIAL_BLOCK_BYTES = 32 << 10
_NO_ROOM = "failed to write whole buffer"  # the library tells bad data from a full buffer in words alone
_SMALLEST_BUFFER = 1 << 16
_GROWTH = 8


def compress(codec: int, data: bytes) -> bytes:
    """Compress with the codec's framing, at Kafka's default level; always the same bytes for the same data."""
    if codec == 0:
        return data
    if codec == 1:
        return gzip.compress(data, 6, mtime=0)
    if codec == 2:
        return _snap(data)
    if codec == 3:
        compressor = cramjam.lz4.Compressor(level=9, content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    return bytes(cramjam.zstd.compress(data, level=3))


def decompress(codec: int, payload: bytes, limit: int = MAX_UNCOMPRESSED_BYTES) -> bytes:
    """Uncompress the records section (2.4). Raises InvalidRecord if it is not of the codec, or exceeds `limit`.

    Memory stays within a small multiple of the result, whatever a damaged or hostile payload claims."""
    if codec == 0:
        return payload
    if not 0 < codec < len(CODEC_NAMES):
        raise InvalidRecord(f"codec {codec} is not known (known: 0 to {len(CODEC_NAMES) - 1})")
    try:
        return _unsnap(payload, limit) if codec == 2 else _inflate(codec, payload, limit)
    except (cramjam.DecompressionError, struct.error) as error:
        raise InvalidRecord(
            f"{len(payload)} bytes of {CODEC_NAMES[codec]} do not decompress (to at most {limit} bytes): {error}"
        ) from error


def _inflate(codec: int, payload: bytes, limit: int) -> bytes:
    """Read gzip (any number of members), lz4 or zstd frames. Frames need not tell their size, so the buffer grows."""
    size = min(limit, max(_SMALLEST_BUFFER, _GROWTH * len(payload)))
    while True:
        buffer = unwritten(size)
        try:
            written = _STREAMS[codec].decompress_into(payload, buffer)
        except cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error) or size == limit:
                raise
            size = min(limit, _GROWTH * size)
        else:
            return bytes(memoryview(buffer)[:written])


def _snap(data: bytes) -> bytes:
    framed = bytearray(_XERIAL_MAGIC + struct.pack(">ii", 1, 1))
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES])
        framed += struct.pack(">i", len(block)) + bytes(block)
    return bytes(framed)


def _unsnap(payload: bytes, limit: int) -> bytes:
    """Read snappy in xerial's framing, of length-prefixed blocks; or one bare block, as Kafka reads it too."""
    if not payload.startswith(_XERIAL_MAGIC):
        return _unsnap_block(payload, limit)
    if len(payload) < _XERIAL_HEADER_BYTES:
        raise InvalidRecord(f"{len(payload)} bytes are too few for the header of snappy's framing")
    data = bytearray()
    position = _XERIAL_HEADER_BYTES
    while position < len(payload):
        (size,) = struct.unpack_from(">I", payload, position)
        position += 4
        if size > len(payload) - position:
            raise InvalidRecord(f"a snappy block of {size} bytes does not fit the {len(payload) - position} left")
        data += _unsnap_block(payload[position : position + size], limit - len(data))
        position += size
    return bytes(data)


def _unsnap_block(block: bytes, limit: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > limit:
        raise InvalidRecord(f"a snappy block announces {size} bytes where at most {limit} are taken")
    return bytes(cramjam.snappy.decompress_raw(block))
