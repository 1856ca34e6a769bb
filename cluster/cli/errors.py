"""How a command ends: 0 ok, 1 a problem was found, 2 bad use, 130 interrupted, 141 nobody reads what it prints; never
with a traceback for the expected.

A problem is told on stderr in one line that names the thing, the value and the remedy.
"""

import os
import sys
from collections.abc import Callable

from replog.errors import ErrorCode, ReplogError

PROBLEM_FOUND = 1
BAD_USE = 2
INTERRUPTED = 130
READER_GONE = 141  # as the shell tells of a command that SIGPIPE ended

_BAD_USE_CODES = frozenset(
    {
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TIMESTAMP,
    }
)


def run(command: Callable[[], object]) -> int:
    """The exit status of `command`, its expected errors told on stderr."""
    try:
        command()
        sys.stdout.flush()
    except ReplogError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_USE if error.code in _BAD_USE_CODES else PROBLEM_FOUND
    except BrokenPipeError:  # `replog consume | head`: the reader has enough; keep the exit's own flush quiet
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):  # typer takes it for a problem that was found
            return READER_GONE
        raise
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return PROBLEM_FOUND
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0
