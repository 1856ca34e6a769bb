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

from replog.simulator.runtime.callbacks import Handle, Step, Task, callers
from replog.simulator.runtime.process import DEAD, PAUSED, PROCESS, RUNNING, Killed, SimulatedProcess, current_process
from replog.simulator.runtime.rng import Rng, Streams

T = TypeVar("T")

KERNEL = contextvars.Context()  # the context of callbacks that run in no process
STEPS_WITHOUT_TIME = 100_000  # more callbacks than this at one instant mean an endless loop
FAST_S, SLOW_S = 0.0005, 0.03  # the longest delay of work in a thread, mostly and sometimes
SLOW = 0.02
TOLD_S = 0.01  # once a step has waited this long for the disk, its callers are noted


class Stuck(Exception):
    """Nothing is left to run, or time does not pass."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs one callback after the other; when none is ready, time jumps to the next timer."""

    def __init__(self, rng: Rng) -> None:
        self.steps = 0
        self.failures: list[str] = []  # exceptions that nobody handled
        self.on_step: list[Callable[[SimulatedProcess], None]] = []  # called after each callback of a process
        self.on_kill: list[Callable[[SimulatedProcess], None]] = []
        self.on_pause: list[Callable[[SimulatedProcess], None]] = []
        self.step_limit_s = float("inf")
        self.too_long: Step | None = None  # the first step that waited for longer than that
        self._now = 0.0
        self._steps_before = 0  # `steps` when this instant began
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._cancelled_timers = 0
        self._sequence = itertools.count()
        self._task_numbers = itertools.count()
        self._threads = Streams(rng, "threads")
        self._executors: dict[Any, deque[Handle]] = {}  # the work that waits for each busy executor
        self._spent_s = 0.0  # the running callback's time at the disk
        self._asked_s = 0.0  # the same on a usual disk
        self._asked: dict[str, int] = {}  # its operations of each kind
        self._askers = ""
        self._kernel = SimulatedProcess("the kernel")  # only to hold the tasks that are in no process
        self._processes: dict[SimulatedProcess, None] = {}
        self._generators: dict[int, SimulatedProcess | None] = {}  # each generator's process; keys: `id`
        self._abandoned: list[AsyncGenerator[Any, Any]] = []
        self._closed = False

    # processes

    def spawn(self, process: SimulatedProcess, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self.create_task(coroutine, context=process.context.copy())

    def kill(self, process: SimulatedProcess, *, power_loss: bool = False) -> None:
        """End a process: nothing of it runs any more, not even `finally`. After a power loss its peers hear nothing."""
        if process.state is DEAD:
            return
        process.state = DEAD
        process.lost_power = power_loss
        for heard in self.on_kill:
            heard(process)

    def pause(self, process: SimulatedProcess) -> None:
        """Stop a process as SIGSTOP does; its callbacks wait, in order."""
        if process.state is RUNNING:
            process.state = PAUSED
            for heard in self.on_pause:
                heard(process)

    def resume(self, process: SimulatedProcess) -> None:
        if process.state is PAUSED:
            process.state = RUNNING
            self._release(process)

    def _release(self, process: SimulatedProcess) -> None:
        """Let a process run the callbacks that waited while it was paused or busy."""
        if process.state is RUNNING:
            self._ready.extend(process.kept)  # type: ignore[arg-type]
            process.kept.clear()

    def spend(self, kind: str, seconds: float, usual_s: float) -> None:
        """Let the running callback wait for the disk; a usual disk would take `usual_s`."""
        self._spent_s += seconds
        self._asked_s += usual_s
        if self._asked_s >= TOLD_S and not self._askers:
            self._askers = callers()
        self._asked[kind] = self._asked.get(kind, 0) + 1

    # driving

    def run_until(self, when: float | Callable[[], bool], limit_s: float = float("inf")) -> bool:
        """Run until that time or condition. Return False if the condition does not hold by `limit_s`.

        Raises `Stuck` if nothing is left to run before the condition holds, and whatever `on_step` raises."""
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
                elif process.state is RUNNING and (
                    handle.in_thread or (not process.kept and process.busy_since is None)
                ):
                    try:
                        handle._context.run(handle._callback, *handle._args)  # type: ignore[arg-type]
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:  # noqa: BLE001 (as asyncio does)
                        self.failed(process, f"in {handle!r}", error)
                    self.steps += 1
                    if self._spent_s:
                        self._was_busy(process, handle)
                    for look in self.on_step:
                        look(process)
                else:
                    process.kept.append(handle)  # a dead process keeps it, otherwise its coroutines would be closed
                    continue
                if done is not None and done():
                    return True

    def _was_busy(self, process: SimulatedProcess, handle: Handle) -> None:
        """Keep the process's loop busy for the time that the callback has spent."""
        spent_s, step = self._spent_s, Step(self._asked_s, process.name, self._asked, self._now, self._askers)
        self._spent_s, self._asked_s, self._asked, self._askers = 0.0, 0.0, {}, ""
        if handle.in_thread:
            return
        if step.seconds > self.step_limit_s and self.too_long is None:
            self.too_long = step
        process.busy_since = self._now
        self.call_at(self._now + spent_s, self._no_longer_busy, process, context=KERNEL)

    def _no_longer_busy(self, process: SimulatedProcess) -> None:
        assert process.busy_since is not None
        process.waited_s += self._now - process.busy_since
        process.busy_since = None
        self._release(process)

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Make this the thread's running loop, and stop garbage collection, which would close coroutines any time."""
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
        """Return virtual seconds, with the time that the running callback has spent at the disk."""
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
        return self.call_at(self._now + self._spent_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = Handle(when, callback, args, self, contextvars.copy_context() if context is None else context)
        handle.in_heap = True
        heapq.heappush(self._timers, (when, next(self._sequence), handle))
        return handle

    def _push(self, handle: Handle) -> None:
        handle.in_heap = True
        heapq.heappush(self._timers, (handle._when, next(self._sequence), handle))

    def timer_cancelled(self) -> None:
        """Remove cancelled timers now and then: most timeouts are cancelled, and would fill the heap."""
        self._cancelled_timers += 1
        if self._cancelled_timers > 200 and self._cancelled_timers * 2 > len(self._timers):
            self._timers[:] = [timer for timer in self._timers if not timer[2]._cancelled]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """Run it in a callback in place of a thread: it takes as long as the disk does, and does not delay the loop."""
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
        """Start the next work of an executor once its last is done."""
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
        # asyncio's own names count from the interpreter's first task, and so differ from run to run
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

    # failures

    def failed(self, process: SimulatedProcess | None, message: str, exception: BaseException | None) -> None:
        """Note an exception that nobody handled, except of a dead process."""
        if self._closed or isinstance(exception, Killed) or (process is not None and process.state is DEAD):
            return
        name = process.name if process is not None else "the kernel"
        self.failures.append(f"an exception nobody handled in {name}: {message}: {exception!r}")

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
        """Close all coroutines that have not ended, silently, in processes that are dead.

        The disk's stand-ins must still be there, otherwise `finally` blocks would change real files."""
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
    except BaseException:  # noqa: BLE001, S110 (a `finally` block of a dead process may raise anything)
        pass


def _finish(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[T]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


async def until(holds: Callable[[], bool], patience_s: float, poll_s: float) -> bool:
    """Wait until `holds`, and return True; False if it does not within `patience_s`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    while not holds():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(poll_s)
    return True
