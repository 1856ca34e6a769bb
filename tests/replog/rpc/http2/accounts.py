"""The sums of a connection: what its windows, its memory and its counters have to agree on after every step."""

from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.stream import DROP, Stream


def missing(stream: Stream) -> int:
    return 0 if stream.partial is None else stream.partial.missing


def check_accounts(connection: Connection) -> None:
    inflow, outflow = connection.inflow, connection.outflow
    streams = connection.streams.values()
    late = inflow._late.values()
    held = sum(stream.held for stream in streams) + sum(size for _, size in late)
    assert inflow._room + inflow._credit + held == inflow._memory, "the connection's window"
    assert inflow._room >= 0
    assert inflow._untaken == sum(stream.untaken for stream in streams) + sum(count for count, _ in late)
    assert inflow._promised == sum(missing(stream) for stream in streams if stream.admitted)
    assert inflow._reserved == sum(stream.partial.reserved for stream in streams if stream.partial is not None)
    for stream in streams:
        assert stream.held >= stream.untaken_bytes
        begun = len(stream.prefix)
        if stream.partial is not None:
            begun = 5 + stream.partial.size - stream.partial.missing
            memory = stream.partial.size + 5 if stream.partial.whole is not None else 0
            assert stream.partial.reserved == max(0, memory - (stream.held - stream.untaken_bytes))
            assert stream.partial.reserved <= 8 * begun, "much memory for what has come"
        if stream.reading != DROP:
            if stream.number == connection._data_number:
                begun += connection.frames.data_left
            assert stream.held == stream.untaken_bytes + begun, "what a stream holds is its messages"
        if stream.number in inflow._waiting:
            assert stream.partial is not None
            assert stream.partial.size > inflow._window - 5
        assert stream.queued == sum(map(len, stream.queue))
        assert stream.turn == (stream in outflow.turns)
        assert stream.turn or not stream.queue or stream.send_window <= 0, "a stream that could send has no turn"
    assert set(inflow._waiting) <= set(connection.streams)
    assert all(stream.number in connection.streams for stream in outflow.turns)
