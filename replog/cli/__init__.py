"""The command line, `replog NOUN VERB`: data on stdout, everything else on stderr.

A noun's commands are in the file of its name. What a verb prints or waits for may stand beside it, as in `log_dump.py`;
options and questions to the cluster that several nouns share are in `options.py` and `asking.py`."""

import os
import signal
import sys

for number in (0, 1, 2):  # of streams that were closed: else a log's file gets the number, and what is written there
    try:
        os.fstat(number)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # which takes the least number that is free
sys.stdout = sys.stdout or os.fdopen(1, "w")
sys.stderr = sys.stderr or os.fdopen(2, "w", buffering=1)

if os.getpid() == 1:  # of a container: the kernel loses signals that such a process does not handle
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # before the imports take their second
