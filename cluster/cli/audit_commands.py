"""`replog audit …`: the Spark audit, as a process of its own."""

import os
import sys
from importlib.util import find_spec

import typer

from cluster.cli.errors import BAD_USE
from cluster.cli.output import note

MODULE = "spark_jobs.audit_replicas"

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Prove that replicas agree, or name the first offset where they do not and why.",
)


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
def run(context: typer.Context) -> None:
    """Audit replica directories with Spark; every option is the audit's own, see `replog audit run --help`.

    Exit status: 0 consistent, 1 diverged, 3 inconclusive, 2 bad use.
    """
    if find_spec("pyspark") is None or find_spec(MODULE.partition(".")[0]) is None:
        note("error: the audit needs Spark, which is not installed; run: pip install 'replog[spark,jdk]'")
        raise typer.Exit(BAD_USE)
    sys.stdout.flush()
    # The audit takes this process over, so that signals and the exit status are its own.
    os.execv(sys.executable, [sys.executable, "-P", "-m", MODULE, *context.args])
