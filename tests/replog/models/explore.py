"""Every state of a model, nearest first: what breaks an invariant is found by a shortest way to it, who waits for ever
by a way from near by.

`python -m tests.replog.models.explore [NAME …]` goes through the models with more troubles, as far as there is time.
"""

import argparse
import logging
import math
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from replog.simulator.invariants import Violation
from tests.replog.models.models import NIGHTLY, SmallModel
from tests.replog.models.moment import BROKERS, Step
from tests.replog.models.replica import EVERYTHING
from tests.replog.models.small_model import Model

MEMORY_FILES = Path("/dev/shm")


@dataclass
class Explored:
    states: int = 0
    steps: int = 0
    depth: int = 0
    complete: bool = False  # there are no other states
    cpu_s: float = 0.0
    violation: Violation | None = None
    trace: list[Step] = field(default_factory=list)
    story: str = ""

    def __str__(self) -> str:
        amount = "all" if self.complete else "the first"
        return f"{amount} {self.states:,} states, {self.steps:,} steps, depth {self.depth}, {self.cpu_s:.1f} s of CPU"


@contextmanager
def made(small: SmallModel) -> Iterator[Model]:
    base = MEMORY_FILES if MEMORY_FILES.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="replog-model-", dir=base) as directory:
        model = Model(Path(directory), small.bounds, small.beginning, eligible_leaders=small.eligible_leaders)
        try:
            yield model
        finally:
            model.close()


def explore(small: SmallModel, most: float = math.inf, cpu_s: float = math.inf, *, rests: bool = True) -> Explored:
    """Until nothing is left, there are `most` states, the time is up, or an invariant is broken. `rests`: whether it is
    looked for who waits for ever."""
    with made(small) as model:
        done = _explore(model, most, cpu_s, rests)
        if done.violation is not None:
            done.story = tell(model, small, done)
        return done


def _explore(model: Model, most: float, cpu_s: float, rests: bool) -> Explored:
    done, began = Explored(), time.process_time()
    came: list[tuple[int, Any]] = [(-1, None)]  # from which state, by which step
    seen, waiting = {hash(model.root)}, deque([(model.root, 0, 0)])
    number, step = 0, None
    to_rest: list[Step] = []
    try:
        while waiting and len(came) < most and (done.steps % 64 or time.process_time() - began < cpu_s):
            state, number, done.depth = waiting.popleft()
            for step in model.enabled(state):
                after = model.do(state, step)
                done.steps += 1
                key = hash(after)
                if key not in seen:
                    seen.add(key)
                    waiting.append((after, len(came), done.depth + 1))
                    came.append((number, step))
                    if rests and len(came) % 4 == 0:  # not of all: that would take longer than all else
                        model.rest(after, to_rest)
                        to_rest.clear()
        done.complete = not waiting
    except Violation as violation:
        done.violation = violation
        while step is not None:
            done.trace.insert(0, step)
            number, step = came[number]
        done.trace += to_rest
    done.states, done.cpu_s = len(came), time.process_time() - began
    return done


SENTENCES = {
    "append": "broker {} is sent a record",
    "ask": "broker {} fetches, and that is under way",
    "beat": "broker {} sends a heartbeat",
    "catch_up": "broker {} hears the newest metadata",
    "decide": "the controller decides what leader {} proposes, and it hears that",
    "decide_in_vain": "the controller decides what leader {} proposes; the answer is lost, and it asks again",
    "decide_slowly": "the controller decides what leader {} proposes, and the answer is under way",
    "deliver": "late message {} arrives",
    "expire": "the sessions of brokers {} end",
    "fail_over": "another controller takes over",
    "fetch": "broker {} fetches, and takes the answer",
    "hear": "broker {} hears the next metadata",
    "hear_verdict": "leader {} hears what was decided",
    "kill": "broker {} is killed",
    "lag": "leader {} waits for longer than the lag limit",
    "push": "leader {} tells broker {} its high watermark",
    "repeat": "leader {}'s proposal is on its way twice",
    "resign": "leader {} asks to lead no more",
    "retain": "leader {}'s records are deleted by retention",
}


def sentence(step: Step) -> str:
    if step[0] == "start":
        _, broker_id, lost = step
        what = {0: "all that was written", EVERYTHING: "an empty disk"}.get(lost, f"its last {lost} records lost")
        return f"broker {broker_id} starts with {what}, and registers"
    return SENTENCES[step[0]].format(*step[1:])


def tell(model: Model, small: SmallModel, done: Explored) -> str:
    """The way to the violation, with whatever each step changed."""
    lines = [f"At first: {', '.join(map(sentence, small.beginning)) or 'nothing has happened'}."]
    state = model.root
    for number, step in enumerate(done.trace, 1):
        lines.append(f"{number}. {sentence(step)}")
        if number == len(done.trace):
            break
        before, state = state, model.do(state, step)
        for broker_id in BROKERS:
            if state.replicas[broker_id - 1] != before.replicas[broker_id - 1]:
                lines.append(f"       {model.view(state, broker_id).seen}")
        if state.controller != before.controller:
            lines.append(f"       the controller: {model.controller.views[state.controller].partition}")
    return "\n".join([*lines, f"{done.violation and done.violation.invariant}: {done.violation}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NIGHTLY], metavar="NAME")
    parser.add_argument("--seconds", type=float, default=300, help="of CPU, for each")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    failed = 0
    for name in arguments.names or NIGHTLY:
        done = explore(NIGHTLY[name], cpu_s=arguments.seconds)
        print(f"{name:12} {done}", flush=True)
        if done.violation is not None:
            failed += 1
            print(done.story, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
