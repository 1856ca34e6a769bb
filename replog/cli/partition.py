"""`replog partition …`: elections, and moves to other brokers and directories, one by one or by a plan."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from replog.cli.asking import ask, at_stake, by_hand, log_ends_of, topics_named
from replog.cli.cluster import LOG_DIRS, log_dir_row
from replog.cli.options import BootstrapServer, OutputFormat, check, number, seconds
from replog.cli.reassignment_plan import Assignment, Planner, assignment_of, from_json, to_json
from replog.command.app import App
from replog.command.ending import PROBLEM_FOUND
from replog.command.output import Format, note, print_rows
from replog.config.properties import MAX_INT, MAX_LONG, number_in
from replog.errors import ErrorCode
from replog.topic import TopicPartition

if TYPE_CHECKING:
    from replog.client import Admin

app = App(help="Elect leaders, and move partitions to other brokers.")

TopicName = Annotated[str, typer.Option("--topic", metavar="NAME", help="The partition's topic.")]
SomeTopic = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="Only partitions of this topic.")]


@app.command()
def elect(
    kind: Annotated[
        Literal["preferred", "unclean"], typer.Option("--election-type", help="Which kind of election; see above.")
    ],
    topic: SomeTopic = None,
    partition: Annotated[
        list[int] | None, number(metavar="N", help="One partition of it; may be repeated. Default: all.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all-topic-partitions", help="All partitions of all topics.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before an unclean election.")] = False,
    bootstrap: BootstrapServer = None,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Elect leaders on request.

    `preferred` gives leadership back to the first of a partition's replicas if that is alive and in sync. Nothing can
    be lost by it. The controller does the same by itself every `leader.imbalance.check.interval.seconds`.

    `unclean` is for partitions without a leader whose in-sync and eligible replicas (isr, elr) will not come back. The
    live replica with the newest leader epoch, and of these with the longest log, becomes the leader. Acknowledged
    records that it lacks are lost for good, even if a broker that has them returns. The command shows what each replica
    has, and asks.

    Exit status 1 if an election was refused; a leader that is there already is no problem.

    Example: `replog partition elect --topic flights --election-type preferred`"""
    from replog.client import ElectionType

    where = "elect where? Use --topic, optionally with --partition, or --all-topic-partitions"
    check((topic is None) == everything and not (partition and everything), where)
    chosen = [TopicPartition(topic, number) for number in partition] if topic is not None and partition else None
    if kind == "unclean" or (topic is not None and chosen is None):
        described = _described(bootstrap, topic)
        chosen = list(described) if chosen is None else chosen
        if kind == "unclean":
            chosen = _confirmed(bootstrap, described, chosen, yes)
    results = ask(bootstrap, lambda admin: admin.elect_leaders(ElectionType(kind), chosen))
    rows = [
        {**tp._asdict(), "leader": result.leader, "result": result.error.code.name if result.error else "elected"}
        for tp, result in results.items()
    ]
    print_rows(rows, ("topic", "partition", "leader", "result"), output)
    refused = [r.error for r in results.values() if r.error and r.error.code is not ErrorCode.ELECTION_NOT_NEEDED]
    for error in refused:
        note(f"error: {error}")
    if refused:
        raise typer.Exit(PROBLEM_FOUND)


def _described(bootstrap: str | None, topic: str | None) -> dict[Any, Any]:
    """Return every partition of `topic`, or of all topics, with its description."""

    async def described(admin: Any) -> dict[Any, Any]:
        topics = await topics_named(admin, topic)
        return {TopicPartition(t.topic, p.partition): p for t in topics for p in t.partitions}

    return ask(bootstrap, described)


def _confirmed(bootstrap: str | None, described: dict[Any, Any], chosen: list[Any], yes: bool) -> list[Any]:
    """Return those of `chosen` that have no leader, once the user has agreed to what that may cost."""
    if unknown := [tp for tp in chosen if tp not in described]:
        raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(f"there is no partition {unknown[0]}")
    leaderless = [tp for tp in chosen if described[tp].leader < 0]
    if not leaderless:
        note("every partition asked for has a leader")
    log_ends = ask(bootstrap, lambda admin: log_ends_of(admin, leaderless))
    for tp in leaderless:
        complete = " or ".join(map(str, described[tp].isr or described[tp].elr))
        instead = f"start broker {complete} instead if possible: it has all acknowledged records"
        note(f"{tp} has no leader; {instead if complete else 'no replica is known to have all acknowledged records'}")
        if tp in log_ends:
            note(at_stake(log_ends[tp]))
    if leaderless and not yes:
        check(sys.stdin.isatty(), "an unclean election may lose acknowledged records; add --yes to accept that")
        if not typer.confirm("Elect these? Records that they do not have are lost for good.", err=True):
            note("nothing was done")
            raise typer.Exit(PROBLEM_FOUND)
    return leaderless


@app.command()
def reassign(
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="One partition: its topic.")] = None,
    partition: Annotated[int | None, number(metavar="N", help="Which of its partitions.")] = None,
    replicas: Annotated[
        str | None, typer.Option(metavar="ID,ID,…", help="The brokers it moves to; the first one is preferred leader.")
    ] = None,
    from_broker: Annotated[int | None, number(metavar="ID", help="Move every replica away from this broker.")] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="Move what it names: JSON, as Kafka's tools write it."
        ),
    ] = None,
    generate: Annotated[
        bool, typer.Option("--generate", help="Print a plan, and move nothing: to spread replicas evenly over brokers.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Show how far the plan has got, and move nothing.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the move, or those of the plan.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is done, and show its progress.")] = False,
    timeout: Annotated[float, seconds(help="How long to wait; of a plan, for the next partition.")] = 600.0,
    throttle: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            min=1,
            max=MAX_LONG,
            help="Copy at most so many bytes a second to a broker, until it is there; --wait says if that is too few.",
        ),
    ] = None,
    bootstrap: BootstrapServer = None,
) -> None:
    """Move partitions to other brokers while they are used.

    Brokers that are added copy a partition from the leader and join the in-sync replicas; as soon as all that it shall
    be on are in sync, the others leave and delete their copies. Another target may be given on the way, and `--cancel`
    goes back. Until it is done the brokers that are added count as replicas, so `min.insync.replicas` may want them.

    Name one partition with its brokers, or a plan, or a broker that everything moves away from. `--generate` prints a
    plan: which moves spread replicas evenly, say over a new broker too, or with `--from-broker` what that would do. A
    plan is JSON as of kafka-reassign-partitions.sh. What was before is printed as such a plan, to go back by it. With
    `--wait` twenty partitions of a plan move at a time, else all of them.

    Exit status 1 if `--wait` gave up while moves go on, or `--verify` finds that not everything is where it should be.

    Examples:

    * `replog partition reassign --topic flights --partition 0 --replicas 2,3,4 --wait`
    * `replog partition reassign --generate > plan.json`
    * `replog partition reassign --plan plan.json --wait > back.json`"""
    named = sum(value is not None for value in (topic, from_broker, plan))
    check(named == 1 or (generate and not named), "use --topic with --partition, --plan, --from-broker or --generate")
    check(not generate or (topic is None and plan is None), "--generate stands alone or with --from-broker")
    check(not verify or plan is not None, "--verify needs --plan")
    check(not cancel or from_broker is None, "--cancel needs --topic or --plan")
    check(throttle is None or not (cancel or generate or verify), "leave --throttle out: nothing begins to move")
    if topic is not None:
        check(partition is not None, "name the --partition, too")
        check((replicas is None) == cancel, "use either --replicas or --cancel")
        assert partition is not None
        tp = TopicPartition(topic, partition)
        if replicas is None:
            (error,) = ask(bootstrap, lambda admin: admin.alter_partition_reassignments({tp: None})).values()
            if error is not None:
                raise error
            note(f"the move of {tp} is cancelled")
            return
        wanted: Assignment = {tp: _brokers(replicas)}
    elif plan is not None:
        wanted = from_json(plan.read_text(errors="replace"), str(plan))
    else:
        wanted = ask(bootstrap, lambda admin: generated(admin, from_broker))
    if verify:
        rows = ask(bootstrap, lambda admin: progress_of(admin, wanted))
        print_rows(rows, ("topic", "partition", "wanted", "replicas", "progress"), Format.TABLE)
        if any(row["progress"] != "done" for row in rows):
            raise typer.Exit(PROBLEM_FOUND)
    elif cancel:
        from replog.cli.moves import cancel_moves

        cancelled = ask(bootstrap, lambda admin: cancel_moves(admin, wanted))
        note(f"{cancelled} moves are cancelled")
    elif generate:
        print(to_json(wanted))
        note(f"a plan of {len(wanted)} moves; carry it out with: replog partition reassign --plan FILE --wait")
    else:
        ask(bootstrap, lambda admin: _moved(admin, wanted, wait, timeout, throttle or 0))
        told = f"{len(wanted)} partitions {'are where the plan has them' if wait else 'move'}"
        for tp, target in wanted.items() if len(wanted) == 1 else ():
            told = f"{tp} {'is on' if wait else 'moves to'} brokers {','.join(map(str, target))}"
        note(f"{told}; what was before is on stdout")


async def generated(admin: "Admin", from_broker: int | None) -> Assignment:
    """Plan moves of everything away from a broker; None: evenly over the active brokers."""
    brokers = (await admin.describe_cluster()).brokers
    if from_broker is not None and from_broker not in {broker.broker_id for broker in brokers}:
        raise ErrorCode.BROKER_ID_NOT_REGISTERED.error(f"there is no broker {from_broker}")
    topics = await admin.describe_topics()
    if from_broker is None:
        return Planner(assignment_of(topics), brokers).spread()
    return Planner(assignment_of(topics, brokers, from_broker), brokers).leave([from_broker])


async def _moved(admin: "Admin", wanted: Assignment, wait: bool, timeout: float, throttle: int) -> None:
    from replog.cli.moves import carry_out, order, wait_until_known

    there = assignment_of(await admin.describe_topics())
    print(to_json({tp: there[tp] for tp in wanted if tp in there}))
    if wait:
        missing = await carry_out(admin, wanted, timeout, throttle)
        await wait_until_known(admin, wanted)
    else:
        missing = await order(admin, wanted, throttle)
    if missing := missing - there.keys():
        raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(
            f"there is no partition {min(missing)} (not there: {len(missing)} of {len(wanted)} partitions)"
        )


async def progress_of(admin: "Admin", wanted: Assignment) -> list[dict[str, Any]]:
    """Return a row for each partition of a plan: done, moving, or elsewhere."""
    moving = await admin.list_partition_reassignments()
    there = assignment_of(await admin.describe_topics())
    rows = []
    for tp, target in sorted(wanted.items()):
        replicas = there.get(tp, ())
        progress = "elsewhere" if replicas != target else "moving" if tp in moving else "done"
        rows.append({**tp._asdict(), "wanted": list(target), "replicas": list(replicas), "progress": progress})
    return rows


def _brokers(text: str) -> tuple[int, ...]:
    """Parse `2,3,4`. Raises INVALID_REPLICA_ASSIGNMENT."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if number_in(part, MAX_INT) is None:
            raise ErrorCode.INVALID_REPLICA_ASSIGNMENT.error(
                f"--replicas {text[:100]!r}: {part[:20]!r} is no broker id"
            )
    return tuple(map(int, parts))


@app.command()
def list_reassignments(
    topic: SomeTopic = None, bootstrap: BootstrapServer = None, output: OutputFormat = Format.TABLE
) -> None:
    """List the partitions that are being moved: where they are, which brokers come, and which will leave; and their
    throttle, in bytes a second."""

    async def under_way(admin: Any) -> dict[Any, Any]:
        topics = await topics_named(admin, topic)
        if throttled := by_hand(topics, (await admin.describe_cluster()).brokers):
            note(throttled)
        return await admin.list_partition_reassignments()  # type: ignore[no-any-return]

    rows = [
        {
            **tp._asdict(),
            "replicas": list(moving.replicas),
            "adding": list(moving.adding_replicas),
            "removing": list(moving.removing_replicas),
            "throttle": moving.throttle or None,
        }
        for tp, moving in ask(bootstrap, under_way).items()
        if topic is None or tp.topic == topic
    ]
    print_rows(rows, ("topic", "partition", "replicas", "adding", "removing", "throttle"), output)


@app.command()
def move(
    topic: TopicName,
    partition: Annotated[int, number(metavar="N", help="Which of its partitions.")],
    broker: Annotated[int, number(metavar="ID", help="The broker whose replica moves.")],
    log_dir: Annotated[str, typer.Option(metavar="PATH", help="The target: one of that broker's log.dirs.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is there.")] = False,
    timeout: Annotated[float, seconds(help="How long to wait.")] = 600.0,
    bootstrap: BootstrapServer = None,
) -> None:
    """Move a replica to another log directory of its broker while it is used.

    The broker copies it, and then changes over in one step. Naming the directory where it is calls a move off. A
    replica that is not on the broker yet will be created in that directory.

    Exit status 1 if `--wait` gave up: the move goes on.

    Example: `replog partition move --topic flights --partition 0 --broker 1 --log-dir /disk2/replog --wait`"""
    remedy = "is relative; give the path as `partition log-dirs` shows it"
    check(os.path.isabs(log_dir), f"--log-dir {log_dir!r} {remedy}")
    log_dir = os.path.normpath(log_dir)
    tp = TopicPartition(topic, partition)

    async def moved(admin: Any) -> bool:
        error = (await admin.alter_replica_log_dirs(broker, {tp: log_dir}))[tp]
        if error is not None and error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
            raise error
        if error is None and wait:
            from replog.cli.moves import wait_for_directory

            await wait_for_directory(admin, tp, broker, log_dir, timeout)
        return error is None

    if ask(bootstrap, moved):
        note(f"{tp} {'is in' if wait else 'moves to'} {log_dir} of broker {broker}")
    else:
        note(f"{tp} is not on broker {broker}; if it is placed there, it will be created in {log_dir}")


@app.command()
def log_dirs(
    broker: Annotated[list[int] | None, number(metavar="ID", help="Only this broker; may be repeated.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Show each replica of this topic; may be repeated.")
    ] = None,
    bootstrap: BootstrapServer = None,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Show the brokers' log directories: how much is in them, and how much room there is.

    With `--topic`, show where its replicas are, how large they are, and how many records they lack: below the high
    watermark, or, for a copy in the making, of what the replica has."""

    async def described(admin: Any) -> Any:
        for name in topic or []:
            await admin.describe_topic(name)  # raises if it does not exist
        brokers = broker or [each.broker_id for each in (await admin.describe_cluster()).brokers if not each.fenced]
        return await admin.describe_log_dirs(brokers, topic or [])

    directories = [
        (broker_id, directory) for broker_id, all_ in ask(bootstrap, described).items() for directory in all_
    ]
    if topic:
        rows = [
            {"broker": broker_id, "log_dir": directory.log_dir, **tp._asdict(), **info._asdict()}
            for broker_id, directory in directories
            for tp, info in directory.replicas
        ]
        columns: tuple[str, ...] = ("broker", "log_dir", "topic", "partition", "size", "offset_lag", "is_future")
    else:
        rows, columns = [log_dir_row(*each) for each in directories], LOG_DIRS
    print_rows(rows, columns, output)
