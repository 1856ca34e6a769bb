"""An error of ours comes first in what Spark tells of it, not last of thirty lines."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from replog.errors import ReplogError


@contextmanager
def told_first() -> Iterator[None]:
    """Around what Spark calls. Spark's worker ends with the error that is raised, and leaves out its traceback: that
    is for defects, and this is an error that says what is wrong. Elsewhere nothing changes."""
    try:
        yield
    except (ReplogError, OSError):
        program = getattr(sys.modules["__main__"], "__spec__", None)
        if program is not None and program.name.startswith("pyspark."):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
