"""Makes Spark print an error of ours in its first line, not in the last of thirty."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from replog.errors import ReplogError


@contextmanager
def reported_first() -> Iterator[None]:
    """Leave the traceback out of a Spark worker's output for an error that is raised here, since its text says what is
    wrong. Put it around code that Spark calls; outside of workers it does nothing."""
    try:
        yield
    except (ReplogError, OSError):
        program = getattr(sys.modules["__main__"], "__spec__", None)
        if program is not None and program.name.startswith("pyspark."):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
