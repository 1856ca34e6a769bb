"""The command line, `replog NOUN VERB`: data on stdout, everything else on stderr.

A noun's commands are in the file of its name. The work of some stands beside it: `log_reports.py`, `moves.py` and
`reassignment_plan.py`. Options and questions that several nouns share are in `options.py` and `asking.py`."""

import os
import signal
import sys

for number in (0, 1, 2):  # otherwise a log's file gets the number of a closed stream, and all that is printed there
    try:
        os.fstat(number)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # takes the least free number
sys.stdout = sys.stdout or os.fdopen(1, "w")
sys.stderr = sys.stderr or os.fdopen(2, "w", buffering=1)

if os.getpid() == 1:  # otherwise a container ignores SIGTERM during the imports, which take a second
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
