"""The five codecs (2.4): Kafka's framings, damage, and payloads that claim or hold too much."""

import gzip
import random
import struct

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec

from replog.log.errors import InvalidRecord
from replog.log.formats.compression import CODEC_NAMES, MAX_UNCOMPRESSED_BYTES, compress, decompress

DATA = random.Random(24).randbytes(3000) * 40 + b"the end"
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def xerial(*blocks: bytes) -> bytes:
    """Blocks in the framing of snappy-java."""
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed


def snap(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def lz4(data: bytes, **options: bool) -> bytes:
    """A frame without the size of its content, as every writer of a stream leaves it."""
    compressor = cramjam.lz4.Compressor(level=9, **options)
    compressor.compress(data)
    return bytes(compressor.finish())


def zstd(data: bytes) -> bytes:
    """As `lz4`."""
    compressor = cramjam.zstd.Compressor(level=3)
    compressor.compress(data)
    return bytes(compressor.finish())


WHOLE = {
    "gzip": (GZIP, gzip.compress(DATA)),
    "gzip of two members": (GZIP, gzip.compress(DATA[:100]) + gzip.compress(DATA[100:])),
    "snappy as aiokafka writes it": (SNAPPY, aiokafka_codec.snappy_encode(DATA)),
    "snappy in blocks of 32 KiB": (SNAPPY, xerial(*(snap(DATA[at : at + 32768]) for at in range(0, 130000, 32768)))),
    "snappy with an empty block": (SNAPPY, xerial(snap(b""), snap(DATA))),
    "snappy, one bare block": (SNAPPY, snap(DATA)),
    "lz4 as aiokafka writes it": (LZ4, aiokafka_codec.lz4_encode(DATA)),
    "lz4 in independent blocks": (LZ4, lz4(DATA, block_linked=False, content_checksum=False)),
    "lz4 in linked blocks, with a checksum": (LZ4, lz4(DATA, block_linked=True, content_checksum=True)),
    "zstd as aiokafka writes it": (ZSTD, aiokafka_codec.zstd_encode(DATA)),
    "zstd without content size": (ZSTD, zstd(DATA)),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_every_framing_is_read(name):
    codec, payload = WHOLE[name]
    assert decompress(codec, payload) == DATA


@pytest.mark.parametrize("codec", range(len(CODEC_NAMES)))
@pytest.mark.parametrize("data", [b"", b"x", DATA, bytes(1 << 20)], ids=len)
def test_what_is_compressed_comes_back_and_is_always_the_same(codec, data):
    payload = compress(codec, data)
    assert decompress(codec, payload) == data
    assert payload == compress(codec, data)
    read_by_aiokafka = [bytes, aiokafka_codec.gzip_decode, aiokafka_codec.snappy_decode,
                        aiokafka_codec.lz4_decode, aiokafka_codec.zstd_decode]  # fmt: skip
    if codec != SNAPPY or data:  # which takes the header alone for a bare block
        assert read_by_aiokafka[codec](payload) == data


def test_uncompressed_payloads_are_handed_back():
    assert decompress(0, DATA) is DATA


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_grows_beyond_every_first_guess_is_read(codec):
    encode = {GZIP: gzip.compress, SNAPPY: aiokafka_codec.snappy_encode, LZ4: lz4, ZSTD: zstd}[codec]
    data = bytes(20 << 20)
    assert decompress(codec, encode(data)) == data


@pytest.mark.parametrize("name", WHOLE)
def test_a_payload_cut_short_is_invalid(name):
    codec, payload = WHOLE[name]
    for size in (0, 1, 3, 10, 17, len(payload) // 2, len(payload) - 5, len(payload) - 1):
        with pytest.raises(InvalidRecord, match=r"gzip|snappy|lz4|zstd"):
            decompress(codec, payload[:size])


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_unknown_codecs_are_invalid(codec):
    with pytest.raises(InvalidRecord, match=f"codec {codec} is not known"):
        decompress(codec, b"abc")


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_bomb_is_invalid_once_it_holds_too_much(codec):
    """A few KiB to a few MiB that would become sixteen times what is taken."""
    module = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}[codec]
    bomb = bytes(module.compress(bytes(MAX_UNCOMPRESSED_BYTES // 16))) * 256
    with pytest.raises(InvalidRecord, match=f"at most {MAX_UNCOMPRESSED_BYTES} bytes"):
        decompress(codec, bomb)


def test_snappy_that_announces_too_much_is_invalid_before_anything_is_allocated():
    liar = b"\xff\xff\xff\xff\x0f" + b"x" * 100  # a length of 4 GiB
    for payload in (liar, xerial(snap(b"x"), liar)):
        with pytest.raises(InvalidRecord, match="announces 4294967295 bytes"):
            decompress(SNAPPY, payload)


def test_snappy_blocks_that_hold_too_much_together_are_invalid():
    block = snap(bytes(MAX_UNCOMPRESSED_BYTES // 8))
    with pytest.raises(InvalidRecord, match="a snappy block announces"):
        decompress(SNAPPY, xerial(*[block] * 8, snap(b"x")))
