"""`replog audit …`: the Spark audit, as a process of its own."""

import os
import sys

import typer

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
    from cluster.audit_process import MODULE, require_spark

    require_spark()
    sys.stdout.flush()
    # The audit takes this process over, so that signals and the exit status are its own.
    os.execv(sys.executable, [sys.executable, "-P", "-m", MODULE, *context.args])
