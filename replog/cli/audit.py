"""`replog audit …`: the Spark audit, as a process of its own."""

import os
import signal
import sys
from contextlib import suppress

import typer

from replog.cli.options import bootstrap_server
from replog.command.app import App
from replog.command.ending import SPARK, require
from replog.errors import ReplogError

app = App(help="Prove that replicas agree, or name the first offset where they do not and why.")
ITS_OWN_OPTIONS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@app.command(context_settings=ITS_OWN_OPTIONS, add_help_option=False)
def run(context: typer.Context) -> None:
    """Audit replicas with Spark, in directories or of a running cluster; see `replog audit run --help`.

    Exit status: 0 consistent, 1 diverged, 3 inconclusive, 2 bad use."""
    from replog.command.audit_process import MODULE

    _become_spark(MODULE, context.args)


@app.command(context_settings=ITS_OWN_OPTIONS, add_help_option=False)
def explain(context: typer.Context) -> None:
    """Show a finding of an audit, and the bytes around it; see `replog audit explain --help`. Needs no Spark."""
    _become("spark_jobs.explain_finding", context.args)


@app.command(context_settings=ITS_OWN_OPTIONS, add_help_option=False)
def follow(context: typer.Context) -> None:
    """Audit on and on, each time only what is new; see `replog audit follow --help`.

    Exit status: 0 consistent, 1 diverged, 3 inconclusive, 2 bad use."""
    _become_spark("spark_jobs.follow_replicas", context.args)


def _become_spark(module: str, arguments: list[str]) -> None:
    """Start an audit, of the local cluster if no other one is named."""
    require(*SPARK)
    with suppress(ReplogError):  # an audit without a cluster says what it needs
        os.environ.setdefault("REPLOG_BOOTSTRAP_SERVER", bootstrap_server(None))
    _become(module, arguments)


def _become(module: str, arguments: list[str]) -> None:
    """Let the audit take this process over, with its signals and its exit status. Ctrl-C waits a second until the audit
    can handle it."""
    sys.stdout.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *arguments])
