"""Memory that nothing has been written to yet."""

from pathlib import Path

from replog.common.buffers import unwritten

MIB = 1 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) << 12


def test_it_has_the_size_that_was_asked_for_and_can_be_written_and_shrunk():
    for size in (0, 1, 4096, 3 * MIB):
        buffer = unwritten(size)
        assert type(buffer) is bytearray
        assert len(buffer) == size
        buffer[:] = bytes(size)
        del buffer[size // 2 :]
        assert buffer == bytes(size // 2)


def test_it_takes_memory_when_it_is_written():
    before = resident_bytes()
    buffer = unwritten(256 * MIB)
    assert resident_bytes() - before < 64 * MIB
    buffer[: 128 * MIB] = bytes(128 * MIB)
    assert resident_bytes() - before >= 128 * MIB
