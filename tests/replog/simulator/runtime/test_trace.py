"""A trace is the same text for the same events, and nothing of the real world is in it."""

import logging

import structlog

from replog.simulator.runtime.trace import Trace


def _trace(directory: str = "/tmp/x") -> Trace:
    return Trace(lambda: 12.345678, lambda: "broker-2", directory)


def test_a_line_is_aligned_and_begins_with_the_partition():
    trace = _trace()
    trace.add("leading", partition="t-0", epoch=3, from_offset=42)
    trace.add_for("world", "FAULT", kind="kill a broker", left=["a", "b"])
    assert trace.lines() == [
        "   12.345678  broker-2     leading                  t-0 epoch=3 from_offset=42",
        "   12.345678  world        FAULT                    kind='kill a broker' left=[a,b]",
    ]


def test_paths_addresses_and_process_ids_are_left_out():
    trace = _trace("/dev/shm/replog-sim-abc/7")
    trace.add("serving", pid=4711, file="/dev/shm/replog-sim-abc/7/broker-1/t-0/0.log", what=repr(object()))
    (line,) = trace.lines()
    assert "4711" not in line
    assert "replog-sim" not in line
    assert "0x" not in line
    assert "file=broker-1/t-0/0.log" in line


def test_the_last_lines_about_a_name_are_found():
    trace = _trace()
    for number in range(5):
        trace.add("leading", partition=f"t-{number % 2}", epoch=number)
    assert [line.split()[-1] for line in trace.lines(["t-0"], last=2)] == ["epoch=2", "epoch=4"]


def test_what_shells_log_is_captured_and_a_logged_exception_is_a_defect():
    trace, shell = _trace(), structlog.get_logger()
    with trace.capturing_logs():
        shell.warning("heartbeat failed", reason="late")
        logging.getLogger("replog.client").info("fetch stream lost: %s", "gone")
        try:
            raise ValueError("no")
        except ValueError:
            shell.exception("completing delayed operations failed", partition="t-0")
    assert trace.lines()[0].endswith("reason=late")
    (defect,) = trace.defects
    assert defect.startswith("broker-2: completing delayed operations failed: ValueError: no\nTraceback")
    assert len(trace) == 3
