"""How a command ends: 0 ok, 1 a problem was found, 2 bad use, 130 interrupted, 141 nobody reads what it prints.

A problem is reported on stderr in one line that names the thing, the value and the remedy; an expected one never with
a traceback."""

import atexit
import errno
import gc
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from replog.command.output import harmless
from replog.errors import ReplogError, codes

PROBLEM_FOUND = 1
BAD_USE = 2
INTERRUPTED = 130
READER_GONE = 141  # as the shell reports a command that SIGPIPE ended
INTERRUPTED_S = 1.0  # for the outcomes of what was sent

atexit.register(gc.freeze)  # else Python looks through all that was loaded before it ends: up to 0.4 s of CPU

_BAD_USE_CODES = codes(
    "INVALID_TOPIC_EXCEPTION INVALID_REQUIRED_ACKS INVALID_PARTITIONS INVALID_REPLICATION_FACTOR "
    "INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG INVALID_REQUEST INVALID_TIMESTAMP"
)

_REMEDIES = {
    errno.ENOSPC: "; make room there, or use another directory",
    errno.EDQUOT: "; the user's quota is used up: make room, or use another directory",
    errno.EACCES: "; run this as a user who may, or change who owns it",
    errno.EPERM: "; run this as a user who may, or change who owns it",
    errno.EROFS: "; mount it writable, or use another directory",
}


def end_in_order() -> None:
    """Let SIGTERM and SIGHUP end this command as Ctrl-C does, so that it undoes what it began; `nohup` is kept to."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))


@asynccontextmanager
async def given_up_soon(producer: Any) -> AsyncIterator[None]:
    """After Ctrl-C what is not acknowledged is not waited for as long as a delivery may take."""
    from asyncio import CancelledError

    try:
        yield
    except CancelledError:
        await producer.close(INTERRUPTED_S)
        raise


class BadUse(Exception):
    """Arguments that make no sense; the message names the argument, its value and the remedy."""


class Failed(Exception):
    """The command could not do its work; the message says why."""


def tell(name: str, message: str, status: int) -> int:
    """The one line on stderr; returns `status`."""
    print(harmless(f"{name}: {message}" if name else message), file=sys.stderr)
    return status


def run(command: Callable[[], int | None], name: str = "", failure: int = PROBLEM_FOUND) -> int:
    """The exit status of `command`, its errors reported on stderr under its `name`; `failure` if it did not work."""
    try:
        status = command()
        sys.stdout.flush()
        return status or 0
    except BadUse as error:
        return tell(name or "error", str(error), BAD_USE)
    except ReplogError as error:
        return tell(name or "error", str(error), BAD_USE if error.code in _BAD_USE_CODES else failure)
    except BrokenPipeError:  # `replog consume | head`: the reader has enough; keep the exit's own flush quiet
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):  # typer takes it for a problem that was found
            return READER_GONE
        raise
    except OSError as error:
        return tell(name or "error", f"{error}{_REMEDIES.get(error.errno or 0, '')}", failure)
    except Failed as error:
        return tell(name or "error", str(error), failure)
    except KeyboardInterrupt:
        return tell(name, "interrupted", INTERRUPTED)
    except Exception:  # noqa: BLE001 - Python's own status is 1, which an audit has for DIVERGED
        traceback.print_exc()
        return failure
