"""Header blocks against the `hpack` package, both ways."""

from hpack import Decoder, Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from replog.rpc.http2.protocol import hpack
from replog.rpc.http2.protocol.hpack import HeaderDecoder, encode_fields
from tests.replog.rpc.http2.pairs import ANSWER, BOUNDS, OK, REQUEST

NAMES = st.sampled_from([b"x", b"grpc-timeout", b"content-type", b"accept", b"cookie", b"a-long-name-" + b"n" * 140])
VALUES = st.sampled_from(
    [b"", b"1", b"gzip, deflate", b"application/grpc", b"v" * 126, b"v" * 127, b"v" * 5000]
) | st.binary(max_size=5).map(lambda value: value.hex().encode())
LISTS = st.lists(st.lists(st.tuples(NAMES, VALUES), max_size=3), max_size=12)


@settings(max_examples=150)
@given(LISTS)
def test_hpack_reads_what_we_write(lists):
    decoder = Decoder()
    for fields in (REQUEST, ANSWER, OK, *lists):
        assert list(decoder.decode(encode_fields(fields), raw=True)) == list(fields)


@settings(max_examples=150)
@given(LISTS, st.booleans(), st.integers(0, 4096))
def test_we_read_what_hpack_writes(lists, huffman, table_size):
    encoder, decoder = Encoder(), HeaderDecoder(BOUNDS)
    for turn, fields in enumerate([*lists, *lists]):
        if turn == 3:
            encoder.header_table_size = table_size
        block = encoder.encode(fields, huffman=huffman)
        assert decoder.decode(block, hpack.TRAILERS).fields == fields


def test_a_known_block_means_something_else_once_the_table_has_changed():
    encoder, decoder = Encoder(), HeaderDecoder(BOUNDS)
    for value in (b"1", b"2", b"1", b"2"):
        fields = [(b"x-turn", value * 70)]
        decoder.decode(encoder.encode([(b"x-other", value), *fields]), hpack.TRAILERS)
        for _ in range(2):
            assert decoder.decode(b"\xbe", hpack.TRAILERS).fields == list(encoder.header_table.dynamic_entries)[:1]


def test_the_same_block_is_judged_by_what_it_is_for():
    decoder = HeaderDecoder(BOUNDS)
    block = encode_fields(REQUEST)
    assert decoder.decode(block, hpack.REQUEST).code == 0
    assert decoder.decode(block, hpack.TRAILERS).code == 1
    assert decoder.decode(block, hpack.REQUEST).fields == REQUEST
