"""An asyncio event loop in virtual time that runs many simulated processes, and can kill or pause each."""

import asyncio
import contextvars
import gc
import heapq
import itertools
import sys
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from replog.simulator.runtime.callbacks import CountingLoop, Failure, Handle, Step, Task, callers
from replog.simulator.runtime.chance import Chance, Streams
from replog.simulator.runtime.process import DEAD, PAUSED, PROCESS, RUNNING, Killed, SimulatedProcess, current_process

T = TypeVar("T")

KERNEL = contextvars.Context()  # of what happens in no process
STEPS_WITHOUT_TIME = 100_000  # more callbacks than this at one instant: something spins
FAST_S, SLOW_S = 0.0005, 0.03  # how long a thread waits for its turn, mostly and sometimes
SLOW = 0.02
TOLD_S = 0.01  # a step that waits longer than that for the disk is told of


class Stuck(Exception):
    """Nothing is left to happen, or time does not pass."""


class SimulatedLoop(CountingLoop):
    """Runs one callback after the other; when none is ready, time jumps to the next timer."""

    def __init__(self, chance: Chance) -> None:
        self.steps = 0
        self.failures: list[Failure] = []
        self.on_step: Callable[[SimulatedProcess], None] | None = None  # after every callback that ran in a process
        self.on_kill: list[Callable[[SimulatedProcess], None]] = []
        self.on_pause: list[Callable[[SimulatedProcess], None]] = []
        self.longest: dict[str, Step] = {}  # by callers, each step that made its loop wait for `TOLD_S` or more
        self._now = 0.0
        self._steps_before = 0  # this instant
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._cancelled_timers = 0
        self._sequence = itertools.count()
        self._task_numbers = itertools.count()
        self._threads = Streams(chance, "threads")
        self._executors: dict[Any, deque[Handle]] = {}  # what each still has to do: one thing at a time
        self._spent_s = 0.0  # by the callback that runs
        self._asked_s = 0.0  # the same on a usual disk
        self._asked: dict[str, int] = {}  # how much of what
        self._askers = ""
        self._kernel = SimulatedProcess("the kernel")  # only to hold the tasks that are in no process
        self._processes: dict[SimulatedProcess, None] = {}
        self._generators: dict[int, SimulatedProcess | None] = {}  # of which process each is, by `id`
        self._abandoned: list[AsyncGenerator[Any, Any]] = []
        self._closed = False

    # processes

    def spawn(self, process: SimulatedProcess, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run it as a task in that process."""
        return self.create_task(coroutine, context=process.context.copy())

    def kill(self, process: SimulatedProcess, *, power_loss: bool = False) -> None:
        """Nothing of it runs any more, `finally` blocks neither; with its power lost its peers do not hear of it."""
        if process.state is DEAD:
            return
        process.state = DEAD
        process.lost_power = power_loss
        for heard in self.on_kill:
            heard(process)

    def pause(self, process: SimulatedProcess) -> None:
        """What it has to run waits, in order, as after SIGSTOP."""
        if process.state is RUNNING:
            process.state = PAUSED
            for heard in self.on_pause:
                heard(process)

    def resume(self, process: SimulatedProcess) -> None:
        if process.state is PAUSED:
            process.state = RUNNING
            self._release(process)

    def _release(self, process: SimulatedProcess) -> None:
        """Once it is neither paused nor busy any more, or dead."""
        if process.state is RUNNING:
            self._ready.extend(process.kept)  # type: ignore[arg-type]
            process.kept.clear()

    def spend(self, kind: str, seconds: float, usual_s: float) -> None:
        """The callback that runs waits for the disk; `usual_s` is what the same takes on a usual disk."""
        self._spent_s += seconds
        self._asked_s += usual_s
        if self._asked_s >= TOLD_S and not self._askers:
            self._askers = callers()
        self._asked[kind] = self._asked.get(kind, 0) + 1

    # driving

    def run_until(self, when: float | Callable[[], bool], limit_s: float = float("inf")) -> bool:
        """Run until that time or condition; False when time came to `limit_s` before the condition held.

        Raises `Stuck` when nothing is left that could fulfil the condition, and whatever `on_step` raises.
        """
        if callable(when):
            return when() or self._run(when, limit_s)
        self._run(None, when)
        self._now = max(self._now, when)
        return True

    def run_until_complete(self, future: Any) -> Any:
        task: asyncio.Future[Any] = asyncio.ensure_future(future, loop=self)
        self.run_until(task.done)
        return task.result()

    def _run(self, done: Callable[[], bool] | None, until: float) -> bool:
        ready, timers = self._ready, self._timers
        with self._running():
            while True:
                if ready:
                    handle = ready.popleft()
                    if self.steps - self._steps_before > STEPS_WITHOUT_TIME:
                        raise Stuck(f"{STEPS_WITHOUT_TIME} callbacks at {self._now:.6f} s, the next is {handle!r}")
                elif timers:
                    if timers[0][0] > until:
                        self._now = max(self._now, until)
                        return False
                    when, _, handle = heapq.heappop(timers)
                    handle.in_heap = False
                    if handle._cancelled:
                        self._cancelled_timers -= 1
                        continue
                    if when > self._now:
                        self._now = when
                        self._steps_before = self.steps
                elif done is None:
                    return False
                else:
                    raise Stuck(f"nothing is left to happen at {self._now:.6f} s")
                if handle._cancelled:
                    continue
                process = handle.process
                if process is None:
                    handle._context.run(handle._callback, *handle._args)  # type: ignore[arg-type]
                    self.steps += 1
                elif process.state is RUNNING and (handle.in_thread or not (process.kept or process.busy)):
                    try:
                        handle._context.run(handle._callback, *handle._args)  # type: ignore[arg-type]
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:  # noqa: BLE001 (as asyncio does)
                        self.failed(process, f"in {handle!r}", error)
                    self.steps += 1
                    if self._spent_s:
                        self._was_busy(process, handle)
                    if self.on_step is not None:
                        self.on_step(process)
                else:
                    process.kept.append(handle)  # its references too: what is not collected is not closed either
                    continue
                if done is not None and done():
                    return True

    def _was_busy(self, process: SimulatedProcess, handle: Handle) -> None:
        """The callback took that long: until then nothing else runs on the process's loop."""
        spent_s, step = self._spent_s, Step(self._asked_s, process.name, self._asked, self._now, self._askers)
        self._spent_s, self._asked_s, self._asked, self._askers = 0.0, 0.0, {}, ""
        if handle.in_thread:
            return
        known = self.longest.get(step.callers)
        if step.seconds >= TOLD_S and (known is None or known.seconds < step.seconds):
            self.longest[step.callers] = step
        process.busy = True
        process.waited_s += spent_s
        self.call_at(self._now + spent_s, self._no_longer_busy, process, context=KERNEL)

    def _no_longer_busy(self, process: SimulatedProcess) -> None:
        process.busy = False
        self._release(process)

    @contextmanager
    def _running(self) -> Iterator[None]:
        """As the running loop of this thread; the collector of cycles would close coroutines at any moment."""
        collecting = gc.isenabled()
        hooks = sys.get_asyncgen_hooks()
        gc.disable()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(self._generator_started, self._generator_abandoned)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(None)
            if collecting:
                gc.enable()

    # callbacks and timers

    def time(self) -> float:
        """Virtual seconds. Inside of a callback that waited for the disk it is that much later."""
        return self._now + self._spent_s

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = Handle(self._now, callback, args, self, contextvars.copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no threads

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = Handle(when, callback, args, self, contextvars.copy_context() if context is None else context)
        self._push(handle)
        return handle

    def _push(self, handle: Handle) -> None:
        handle.in_heap = True
        heapq.heappush(self._timers, (handle._when, next(self._sequence), handle))

    def timer_cancelled(self) -> None:
        """For `Handle`: most timeouts never come about, and would fill the heap."""
        self._cancelled_timers += 1
        if self._cancelled_timers > 200 and self._cancelled_timers * 2 > len(self._timers):
            self._timers[:] = [timer for timer in self._timers if not timer[2]._cancelled]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """There are no threads: it runs in one callback, which takes as long as the disk does, beside the loop."""
        future: asyncio.Future[T] = self.create_future()
        arguments = (executor, future, func, args)
        handle = Handle(self.time() + self._delay_s(), self._work, arguments, self, contextvars.copy_context())
        handle.in_thread = True
        if executor is None:
            self._push(handle)
        elif executor in self._executors:
            self._executors[executor].append(handle)
        else:
            self._executors[executor] = deque()
            self._push(handle)
        return future

    def _delay_s(self) -> float:
        process = current_process()
        draw = self._threads[process.name if process is not None else ""].random
        return draw() * (SLOW_S if draw() < SLOW else FAST_S)

    def _work(self, executor: Any, future: "asyncio.Future[T]", func: Callable[..., T], args: tuple[Any, ...]) -> None:
        try:
            result = func(*args)
        except (SystemExit, KeyboardInterrupt, Killed):
            raise
        except BaseException as error:  # noqa: BLE001 (as a thread does)
            self.call_later(self._delay_s(), _fail, future, error)
        else:
            self.call_later(self._delay_s(), _finish, future, result)
        if executor is not None:
            self._next(executor)

    def _next(self, executor: Any) -> None:
        """Once what it has just done is over."""
        waiting = self._executors[executor]
        if not waiting:
            del self._executors[executor]
            return
        handle = waiting.popleft()
        handle._when = max(handle._when, self.time())
        self._push(handle)

    # futures and tasks

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        process = current_process() if context is None else context.get(PROCESS)
        # asyncio's own names count up from the interpreter's first task
        name = name or getattr(coro, "__qualname__", type(coro).__name__)
        task = Task(coro, next(self._task_numbers), process, loop=self, name=name, context=context)
        holder = process or self._kernel
        tasks = holder.tasks
        if not tasks:
            self._processes[holder] = None
        elif len(tasks) > holder.prune_at and holder.state is not DEAD:
            tasks[:] = [task for task in tasks if not task.done()]
            holder.prune_at = 2 * len(tasks) + 16
        tasks.append(task)
        return task

    def _generator_started(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[id(generator)] = current_process()

    def _generator_abandoned(self, generator: AsyncGenerator[Any, Any]) -> None:
        process = self._generators.pop(id(generator))
        if self._closed or (process is not None and process.state is DEAD):
            self._abandoned.append(generator)
            return
        self.call_soon(self._close_generator, generator, context=process.context.copy() if process else KERNEL.copy())

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        self.create_task(generator.aclose(), name="close an abandoned generator")

    # what goes wrong

    def failed(self, process: SimulatedProcess | None, message: str, exception: BaseException | None) -> None:
        """Note what nobody handled; a process that was killed meant nothing by it."""
        if self._closed or isinstance(exception, Killed) or (process is not None and process.state is DEAD):
            return
        self.failures.append(Failure(process.name if process is not None else "the kernel", message, exception))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        message = context.get("message", "")
        about = context.get("task") or context.get("future")
        process = current_process()
        if isinstance(about, Task):
            message += f" ({about.get_name()})"
            process = about.process
        self.failed(process, message, context.get("exception"))

    # the rest of what asyncio asks of a loop

    def get_debug(self) -> bool:
        return False

    def dispose(self) -> None:
        """The end of it all: close what never ran to its end, as a process that is dead, saying nothing.

        The disk must still be stood in for: what `finally` blocks do now is refused.
        """
        if self._closed:
            return
        self._closed = True
        for process in self._processes:
            process.state = DEAD
        with self._running():
            for process in self._processes:
                while process.tasks:  # closing one may make another
                    process.context.run(_close, process.tasks.pop())
                process.kept.clear()
        self._ready.clear()
        self._timers.clear()


def _close(task: asyncio.Task[Any]) -> None:
    coroutine = task.get_coro()
    assert coroutine is not None
    try:
        coroutine.close()
    except BaseException:  # noqa: BLE001, S110 (whatever a finally block says: its process is no more)
        pass


def _finish(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[T]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
