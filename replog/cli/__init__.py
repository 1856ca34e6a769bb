"""The command line, `replog NOUN VERB`: data on stdout, everything else on stderr.

A noun's commands are in the file of its name. What a verb prints or waits for may stand beside it, as in `log_dump.py`;
options and questions to the cluster that several nouns share are in `options.py` and `asking.py`.
"""

import os
import signal
import sys

if os.getpid() == 1:  # of a container: the kernel loses signals that such a process does not handle
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # before the imports take their second
