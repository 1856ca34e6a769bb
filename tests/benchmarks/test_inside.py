"""What a record costs inside is counted over all roles, and every part of the code has a name of its own."""

import asyncio

from benchmarks.inside import ROOT, TurnsLoop, measure, part_of


def test_each_file_belongs_to_the_part_that_it_lies_in():
    assert part_of(str(ROOT / "replog/rpc/http2/shells/socket_connection.py"), "write") == "replog/rpc/http2"
    assert part_of(str(ROOT / "replog/rpc/codec.py"), "encode") == "replog/rpc"
    assert part_of(str(ROOT / ".venv/lib/python3.11/site-packages/hpack/hpack.py"), "encode") == "other"
    assert part_of(asyncio.__file__, "run") == "asyncio"
    assert part_of("~", "<built-in method posix.pwritev>") == "the kernel"
    assert part_of("~", "<built-in method builtins.len>") == "functions of C"


def test_all_roles_are_counted():
    with asyncio.Runner(loop_factory=TurnsLoop) as runner:
        figures = runner.run(measure(seconds=0.5))
    calls = {part["part"]: part["calls"] for part in figures["parts"]}
    assert {"replog/client", "replog/rpc/http2", "leader", "follower", "replog/log", "the kernel"} <= calls.keys()
    assert calls["follower"] > 2, calls  # each record is appended by two of them
    assert figures["messages"] >= 4, figures  # to the leader, to each follower, and the answer
    assert figures["file_writes"] >= 3, figures
    assert figures["socket_writes"] > 1
    assert figures["turns"] > 1
