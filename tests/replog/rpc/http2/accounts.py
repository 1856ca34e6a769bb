"""The sums of a connection: what its windows, its memory and its counters have to agree on after every step."""

from replog.rpc.http2.connection import Connection


def check_accounts(connection: Connection) -> None:
    incoming, outgoing, receiver = connection._incoming, connection._outgoing, connection._receiver
    streams = connection._open.values()
    late = incoming._late.values()
    held = sum(stream.held for stream in streams) + sum(size for _, size in late)
    assert incoming._room + incoming._credit + held == incoming._memory, "the connection's window"
    assert incoming._room >= 0
    assert incoming._untaken == sum(stream.untaken for stream in streams) + sum(count for count, _ in late)
    assert incoming._promised == sum(stream.lacks for stream in streams if stream.admitted)
    for stream in streams:
        assert stream.held >= stream.untaken_bytes
        assert stream.lacks == max(stream.size, 0) - sum(map(len, stream.pieces))
        if not stream.deaf:
            begun = 5 + sum(map(len, stream.pieces)) if stream.size >= 0 else len(stream.prefix)
            if stream.number == receiver._data_number:
                begun += receiver.frames._data_left
            assert stream.held == stream.untaken_bytes + begun, "what a stream holds is its messages"
        assert (stream.number in incoming._waiting) <= (stream.size > incoming._bounds.window - 5)
        assert stream.queued == sum(map(len, stream.queue))
        assert stream.turn == (stream in outgoing.turns)
        assert stream.turn or not stream.queue or stream.send_window <= 0, "a stream that could send has no turn"
    assert set(incoming._waiting) <= set(connection._open)
    assert all(stream.number in connection._open for stream in outgoing.turns)
