"""What h2spec, a program of others, finds in our server: https://github.com/summerwind/h2spec.

It asks for a page, not for a call of gRPC, and is answered at once, without a body. What it therefore cannot see, and
what has changed since it was written, is left out:

- generic/2/2, generic/2/3, http2/6.9.1/1, http2/6.9.2/1 and /2: they wait for DATA. The last three it skips by itself.
- http2/5.1.2: it opens a stream more than may be open, but each has ended by then. `test_floods` does it with calls.
- http2/5.1/8 and /9, 6.9/2, 6.9.1/3, 8.1/1, 8.1.2.1/3, 8.1.2.6: what is wrong comes on a stream that our answer has
  ended by then, or not, as it happens. `test_states` and `test_random` do it.
- http2/4.2/3: a frame of headers larger than SETTINGS_MAX_FRAME_SIZE, which it takes to be 16 KiB and not what we say.
- http2/5.3.1: a stream that depends on itself. RFC 9113 has no priorities, and lets them be sent (5.3.2)."""

import asyncio
from pathlib import Path
from xml.etree import ElementTree

import pytest

from replog.rpc import methods
from tests.interop.foreign import NoToolchain, h2spec
from tests.replog.rpc.handlers import Handlers, serving

ASKED = [
    *("generic/1", "generic/2/1", "generic/2/4", "generic/2/5", "generic/3", "generic/4", "generic/5", "http2/3"),
    *("http2/4.1", "http2/4.2/1", "http2/4.2/2", "http2/4.3", "http2/5.1/1", "http2/5.1/2", "http2/5.1/3"),
    *("http2/5.1/4", "http2/5.1/5", "http2/5.1/6", "http2/5.1/7", "http2/5.1/10", "http2/5.1/11", "http2/5.1/12"),
    *("http2/5.1/13", "http2/5.1.1", "http2/5.4", "http2/5.5", "http2/6.1", "http2/6.2", "http2/6.3", "http2/6.4"),
    *("http2/6.5", "http2/6.7", "http2/6.8", "http2/6.9/1", "http2/6.9/3", "http2/6.9.1/2", "http2/6.9.2/3"),
    *("http2/6.10", "http2/7", "http2/8.1.2/1", "http2/8.1.2.1/1", "http2/8.1.2.1/2", "http2/8.1.2.1/4"),
    *("http2/8.1.2.2", "http2/8.1.2.3", "http2/8.2", "hpack"),
]
ANSWER_S = 30  # for each; nothing waits for it that goes well


async def test_h2spec_finds_nothing_else(tmp_path: Path) -> None:
    try:
        program = await asyncio.to_thread(h2spec)
    except NoToolchain as reason:
        pytest.skip(f"no h2spec: {reason}")
    report = tmp_path / "report.xml"
    async with serving(Handlers(), methods.LOG) as address:
        port = address.rsplit(":", 1)[1]
        where = ["-h", "127.0.0.1", "-p", port, "-P", methods.Log["get_metadata"].path]
        running = await asyncio.create_subprocess_exec(
            program, *where, "-o", str(ANSWER_S), "-j", str(report), *ASKED, stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(300):
            said, _ = await running.communicate()
    cases = ElementTree.parse(report).getroot().findall("testsuite/testcase")
    failed = [case.attrib["classname"] for case in cases if {child.tag for child in case} & {"error", "failure"}]
    assert failed == [], said.decode()
    assert len(cases) == 128, said.decode()
