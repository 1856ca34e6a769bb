"""The states that one part of a model has reached, and what each step does in each: a step is run once for each state.

A state is known by its digest. To run another step in it, its part is made again by the steps that led there first.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from replog.simulator.invariants import Violation

KEPT = 1000  # parts that stay as they are for the next step


class Memory:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.views: list[Any] = []
        self.runs = 0  # of the shipped code
        self._make = make
        self._states: dict[Any, int] = {}
        self._from: list[tuple[int, str, tuple[Any, ...]]] = []
        self._lengths: list[int] = []  # of the ways that lead to them
        self._results: dict[tuple[int, str, tuple[Any, ...]], tuple[int, tuple[Any, ...]]] = {}
        self._parts: OrderedDict[int, Any] = OrderedDict()

    def begin(self, *steps: tuple[str, tuple[Any, ...]]) -> int:
        """The state after these steps."""
        self._from.append((-1, "", ()))
        self._lengths.append(0)
        self.views.append(None)
        state, self._states[None] = 0, 0
        for event, arguments in steps:
            state, _ = self.step(state, event, *arguments)
        return state

    def step(self, state: int, event: str, *arguments: Any) -> tuple[int, tuple[Any, ...]]:
        """The state after it, and what was said."""
        key = state, event, arguments
        result = self._results.get(key)
        if result is None:
            result = self._results[key] = self._run(key)
        return result

    def _run(self, key: tuple[int, str, tuple[Any, ...]]) -> tuple[int, tuple[Any, ...]]:
        state, event, arguments = key
        part = self._parts.pop(state, None) or self._again(state)
        try:
            said = part.run(event, arguments)
            digest = part.digest()
            after = self._states.get(digest)
            length = self._lengths[state] + 1
            if after is None:
                after = self._states[digest] = len(self._from)
                self._from.append(key)
                self._lengths.append(length)
                self.views.append(part.view())
            elif length < self._lengths[after]:
                self._from[after], self._lengths[after] = key, length
        except Violation:
            part.close()
            raise
        except Exception as error:
            part.close()
            raise Violation("defect", f"{event}: {error!r}") from error
        if after in self._parts:
            part.close()
        else:
            self._parts[after] = part
            if len(self._parts) > KEPT:
                self._parts.popitem(last=False)[1].close()
        return after, said

    def _again(self, state: int) -> Any:
        steps = []
        part = None
        while state and part is None:
            state, event, arguments = self._from[state]
            steps.append((event, arguments))
            part = self._parts.pop(state, None)
        part = part or self._make()
        for event, arguments in reversed(steps):
            part.run(event, arguments)
            self.runs += 1
        return part

    def close(self) -> None:
        for part in self._parts.values():
            part.close()
