"""The process that cleans logs: requests on its standard input, answers on its standard output.

Requests and answers are pickles behind their length. It ends with its input, and at once when its parent dies:
otherwise two cleaners in one directory would write to each other's files."""

import ctypes
import os
import pickle
import signal
import struct
import sys
from collections.abc import Sequence
from typing import BinaryIO

from replog.log.compaction.cleaning import Cleaning, CleanTask, SourceSegment

CleaningRequest = CleanTask | Sequence[SourceSegment]
"""Begins a cleaning (`Cleaning.map_keys`): the answer is the offset up to which the log will be clean. Or goes on with
it (`Cleaning.rewrite`): the answer is 1 if a segment is to be swapped in, else 0."""

LENGTH = struct.Struct(">Q")
NICENESS = 5
_PR_SET_PDEATHSIG = 1


class Cleanings:
    """Carries out one cleaning after the other."""

    def __init__(self) -> None:
        self._cleaning: Cleaning | None = None

    def carry_out(self, request: CleaningRequest) -> int:
        """Carry out a request. Raises as `Cleaning`."""
        if isinstance(request, CleanTask):
            self._cleaning = Cleaning(request)
            self._cleaning.map_keys()
            return self._cleaning.end_offset
        assert self._cleaning is not None, "the keys come first"
        return self._cleaning.rewrite(request) is not None


def main(parent: int) -> None:
    _die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the broker gets the Ctrl-C, too, and ends this process
    os.nice(NICENESS)
    requests, answers, cleanings = sys.stdin.buffer, os.fdopen(os.dup(1), "wb"), Cleanings()
    os.dup2(2, 1)  # otherwise a print would be read as an answer
    while (request := _read(requests)) is not None:
        answer: object
        try:
            answer = cleanings.carry_out(request)
        except Exception as error:  # noqa: BLE001 (the parent raises it)
            answer = error
        data = pickle.dumps(answer)
        answers.write(LENGTH.pack(len(data)) + data)
        answers.flush()


def _read(stream: BinaryIO) -> CleaningRequest | None:
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    request: CleaningRequest = pickle.loads(stream.read(*LENGTH.unpack(head)))
    return request


def _die_with(parent: int) -> None:
    """Have Linux kill this process when its parent ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the broker has ended")


if __name__ == "__main__":
    main(int(sys.argv[1]))
