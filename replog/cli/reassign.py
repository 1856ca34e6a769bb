"""`replog partition reassign`: partitions move to other brokers, one by one or by a plan."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replog.cli.asking import ask
from replog.cli.options import BootstrapServer, number, seconds
from replog.cli.reassignment_plan import Assignment, Planner, assignment_of, from_json, to_json
from replog.command.ending import PROBLEM_FOUND
from replog.command.output import Format, note, print_rows
from replog.common.addresses import number_in
from replog.config.properties import MAX_INT, MAX_LONG
from replog.errors import ErrorCode
from replog.topic import TopicPartition

if TYPE_CHECKING:
    from replog.client import Admin


def reassign(
    topic: Annotated[str | None, typer.Option("--topic", metavar="NAME", help="One partition: its topic.")] = None,
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
    _check(named == 1 or (generate and not named), "use --topic with --partition, --plan, --from-broker or --generate")
    _check(not generate or (topic is None and plan is None), "--generate stands alone or with --from-broker")
    _check(not verify or plan is not None, "--verify needs --plan")
    _check(not cancel or from_broker is None, "--cancel needs --topic or --plan")
    _check(throttle is None or not (cancel or generate or verify), "leave --throttle out: nothing begins to move")
    if topic is not None:
        _check(partition is not None, "name the --partition, too")
        assert partition is not None
        _reassign_one(TopicPartition(topic, partition), replicas, cancel, wait, timeout, throttle, bootstrap)
    elif plan is not None:
        wanted = from_json(plan.read_text(errors="replace"), str(plan))
        if verify:
            _verify(wanted, bootstrap)
        elif cancel:
            from replog.cli.partition_moves import cancel_moves

            cancelled = ask(bootstrap, lambda admin: cancel_moves(admin, wanted))
            note(f"{cancelled} moves are cancelled")
        else:
            _move(wanted, wait, timeout, throttle, bootstrap)
    else:
        wanted = ask(bootstrap, lambda admin: generated(admin, from_broker))
        if generate:
            print(to_json(wanted))
            note(f"a plan of {len(wanted)} moves; carry it out with: replog partition reassign --plan FILE --wait")
        else:
            _move(wanted, wait, timeout, throttle, bootstrap)


def _check(sound: bool, remedy: str) -> None:
    if not sound:
        raise ErrorCode.INVALID_REQUEST.error(remedy)


async def generated(admin: "Admin", from_broker: int | None) -> Assignment:
    """Plan moves of everything away from a broker; None: evenly over the active brokers."""
    brokers = (await admin.describe_cluster()).brokers
    if from_broker is not None and from_broker not in {broker.broker_id for broker in brokers}:
        raise ErrorCode.BROKER_ID_NOT_REGISTERED.error(f"there is no broker {from_broker}")
    topics = await admin.describe_topics()
    if from_broker is None:
        return Planner(assignment_of(topics), brokers).spread()
    return Planner(assignment_of(topics, brokers, from_broker), brokers).leave([from_broker])


def _move(wanted: Assignment, wait: bool, timeout: float, throttle: int | None, bootstrap: str | None) -> None:
    from replog.cli.partition_moves import carry_out, order, wait_until_known

    async def moved(admin: Any) -> None:
        there = assignment_of(await admin.describe_topics())
        print(to_json({tp: there[tp] for tp in wanted if tp in there}))
        if wait:
            missing = await carry_out(admin, wanted, timeout, throttle or 0)
            await wait_until_known(admin, wanted)
        else:
            missing = await order(admin, wanted, throttle or 0)
        if missing := missing - there.keys():
            raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(
                f"there is no partition {min(missing)} (not there: {len(missing)} of {len(wanted)} partitions)"
            )

    ask(bootstrap, moved)
    note(f"{len(wanted)} partitions {'are where the plan has them' if wait else 'move'}; what was before is on stdout")


def _verify(wanted: Assignment, bootstrap: str | None) -> None:
    rows = ask(bootstrap, lambda admin: progress_of(admin, wanted))
    print_rows(rows, ("topic", "partition", "wanted", "replicas", "progress"), Format.TABLE)
    if any(row["progress"] != "done" for row in rows):
        raise typer.Exit(PROBLEM_FOUND)


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


def _reassign_one(
    tp: TopicPartition,
    replicas: str | None,
    cancel: bool,
    wait: bool,
    timeout: float,
    throttle: int | None,
    bootstrap: str | None,
) -> None:
    _check((replicas is None) == cancel, "use either --replicas or --cancel")
    target = None if replicas is None else _brokers(replicas)

    async def moved(admin: Any) -> None:
        error = (await admin.alter_partition_reassignments({tp: target}, throttle or 0))[tp]
        if error is not None:
            raise error
        if target is not None and wait:
            from replog.cli.partition_moves import wait_for_brokers

            await wait_for_brokers(admin, tp, target, timeout)

    ask(bootstrap, moved)
    if target is None:
        note(f"the move of {tp} is cancelled")
    else:
        note(f"{tp} {'is on' if wait else 'moves to'} brokers {','.join(map(str, target))}")


def _brokers(text: str) -> list[int]:
    """Parse `2,3,4`. Raises INVALID_REPLICA_ASSIGNMENT."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if number_in(part, MAX_INT) is None:
            raise ErrorCode.INVALID_REPLICA_ASSIGNMENT.error(
                f"--replicas {text[:100]!r}: {part[:20]!r} is no broker id"
            )
    return [int(part) for part in parts]
