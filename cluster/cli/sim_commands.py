"""`replog sim …`: whole clusters under virtual time, with every fault drawn from a seed."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.errors import PROBLEM_FOUND
from cluster.cli.options import Format, OutputFormat
from cluster.simulation.profiles import PROFILES

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Run clusters of the shipped broker, controller and clients under virtual time, with faults from a seed.",
)

ProfileName = StrEnum("ProfileName", {name: name for name in PROFILES})  # type: ignore[misc]
ProfileOption = Annotated[
    ProfileName,
    typer.Option(
        "--profile", help="; ".join(f"`{profile.name}`: {profile.description}" for profile in PROFILES.values())
    ),
]
SWARM = ProfileName("swarm")


@app.command()
def run(
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many.")] = 100,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0, help="The others follow it.")] = 1,
    profile: ProfileOption = SWARM,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=256, help="How many at a time.")] = 2,
    keep: Annotated[
        Path | None, typer.Option("--keep", help="A directory for the disks and traces of seeds that fail.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="A Markdown file whose marked figures are replaced.")
    ] = None,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Run many seeds. Each is a cluster of its own, with its own topics, clients, faults and end.

    Every invariant is checked after every step, and what clients saw in the end. Of a seed that fails is told: the
    invariant, what was seen, the last events about it, and the command that replays it. Exit status: 0 all passed,
    1 some failed.

    Example: `replog sim run --seeds 1000 --profile storm`
    """
    from cluster.cli.sim import run_many

    if run_many(seeds, first_seed, str(profile), jobs, keep, report, output is Format.JSON):
        raise typer.Exit(PROBLEM_FOUND)


@app.command()
def replay(
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed.")],
    profile: ProfileOption = SWARM,
    messages: Annotated[bool, typer.Option("--messages", help="Every message between processes too.")] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", help="A directory for its disks, as they are in the end.")
    ] = None,
) -> None:
    """Run one seed again and print its trace: an aligned line for each event. It is the same every time.

    The verdict comes last, on stderr if the seed passes. Exit status: 0 it passed, 1 it failed.

    Example: `replog sim replay --profile storm --seed 42 | less -S`
    """
    from cluster.cli.sim import replay_one

    if replay_one(seed, str(profile), messages, keep):
        raise typer.Exit(PROBLEM_FOUND)
