"""The exit status of a command: 0 ok, 1 a problem was found, 2 bad use, 130 interrupted, 141 nobody reads its output.

An expected problem is one line on stderr that names the thing, the value and the remedy, never a traceback."""

import atexit
import errno
import gc
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from replog.command.output import harmless
from replog.errors import ReplogError, codes

PROBLEM_FOUND = 1
BAD_USE = 2
INTERRUPTED = 130
READER_GONE = 141  # a shell says so of a command that SIGPIPE ended

atexit.register(gc.freeze)  # otherwise Python looks through all loaded objects as it ends: up to 0.4 s of CPU

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
SPARK = ("pyspark", "pyarrow", "numpy", "pandas", "jinja2")  # pyproject's extra of that name


def end_in_order() -> None:
    """Let SIGTERM and SIGHUP end this command as Ctrl-C does, so that it undoes what it began. `nohup` still works."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _: object) -> None:
    for another in (signal.SIGTERM, signal.SIGHUP):  # GNU timeout sends two: the second would end the undoing
        signal.signal(another, signal.SIG_IGN)
    sys.exit(128 + number)


class BadUse(Exception):
    """Arguments that make no sense; the message names the argument, its value and the remedy."""


class Failed(Exception):
    """The command could not do its work; the message says why."""


def tell(name: str, message: str, status: int) -> int:
    """Print the problem as one line on stderr, and return `status`."""
    print(harmless(f"{name}: {message}" if name else message), file=sys.stderr)
    return status


def run(command: Callable[[], int | None], name: str = "", failure: int = PROBLEM_FOUND) -> int:
    """Run `command`, report its errors on stderr under its `name`, and return its exit status, or `failure`."""
    try:
        status = command()
        sys.stdout.flush()
        return status or 0
    except BadUse as error:
        return tell(name or "error", str(error), BAD_USE)
    except ReplogError as error:
        return tell(name or "error", str(error), BAD_USE if error.code in _BAD_USE_CODES else failure)
    except BrokenPipeError:  # `replog consume | head`; otherwise Python's own flush at exit would complain
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
    except Exception:  # noqa: BLE001 - otherwise Python would end with 1, which means DIVERGED after an audit
        traceback.print_exc()
        return failure


def require(*packages: str) -> None:
    """Raises BadUse if packages are missing, with the command that installs them."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        try:
            declared = requires("replog") or []
        except PackageNotFoundError:  # Spark may run from an archive of the code alone
            declared = []
        wanted = {re.split(r"[^\w.-]", line)[0]: line.partition(";")[0].strip() for line in declared}
        install = " ".join(f"'{wanted.get(package, package)}'" for package in missing)
        raise BadUse(f"missing: {', '.join(missing)}; install them: pip install {install}")
