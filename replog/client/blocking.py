"""The base of blocking clients: an async client on an event loop in a thread of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from types import FunctionType
from typing import Any, Generic, Protocol, Self, TypeVar

from replog.client.arguments import check_timeout
from replog.client.lifetime import Lifetime
from replog.client.producing.producer import Delivery, Producer, RecordMetadata
from replog.errors import ErrorCode

END_S = 5.0  # how long a second closing may take after an interrupted one


class AsyncClient(Protocol):
    life: Lifetime

    async def close(self) -> None: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /
    ) -> None: ...


C = TypeVar("C", bound=AsyncClient)
T = TypeVar("T")


class Blocking(Generic[C]):
    """Works from construction to `close`, for one thread at a time.

    A call that Ctrl-C or a signal handler interrupts is cancelled. It loses nothing, and the client goes on."""

    def __init_subclass__(cls, of: type, **options: object) -> None:
        """Copy the docstrings of the async class."""
        super().__init_subclass__(**options)
        for name, member in vars(cls).items():
            if isinstance(member, FunctionType | property) and not member.__doc__:
                member.__doc__ = getattr(getattr(of, name.removesuffix("_nowait"), None), "__doc__", None)

    def __init__(self, make: Callable[[], C]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=type(self).__name__, daemon=True)
        self._thread.start()

        async def made() -> C:
            return make()  # connections belong to the loop that runs while they are made

        try:
            self._client = self._wait(made)
        except BaseException:
            self._stop()
            raise

    def _run(self, call: Callable[[], Coroutine[Any, Any, T]], give_back: Callable[[T], object] | None = None) -> T:
        """Run a call and return its result. `give_back` gets the result if an interrupt keeps it from the caller."""
        self._client.life.check()
        return self._wait(call, give_back)

    def _call(self, call: Callable[[], T]) -> T:
        async def called() -> T:
            return call()

        self._client.life.check(closed_too=not self._loop.is_closed())
        return call() if self._loop.is_closed() else self._wait(called)

    def _wait(self, call: Callable[[], Coroutine[Any, Any, T]], give_back: Callable[[T], object] | None = None) -> T:
        tasks: list[asyncio.Task[T]] = []
        ended, refused = threading.Lock(), False  # a bare lock: a Future may break if a wait for it is interrupted
        ended.acquire()

        async def called() -> T:
            return await call()

        def begin() -> None:
            tasks.append(self._loop.create_task(called()))
            tasks[0].add_done_callback(lambda _: ended.release())

        def give_up() -> None:
            for task in tasks:
                if not (task.cancel() or task.cancelled() or give_back is None or task.exception()):
                    give_back(task.result())

        try:
            self._loop.call_soon_threadsafe(begin)
            ended.acquire()
            refused = tasks[0].cancelled() or tasks[0].exception() is not None
            if tasks[0].cancelled():
                raise ErrorCode.INVALID_REQUEST.error("the client was closed meanwhile")
            return tasks[0].result()
        except BaseException:
            if not refused:
                self._loop.call_soon_threadsafe(give_up)
            raise

    def _forever(self, fetch: Callable[[], Iterable[T]]) -> Iterator[T]:
        self._client.life.check()
        while not self._loop.is_closed():
            yield from fetch()

    def _close(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Close the client and end the thread."""
        if self._loop.is_closed() or self._client.life.is_copy:
            return
        try:
            self._wait(close)
        finally:
            self._stop()

    def _stop(self) -> None:
        async def end() -> None:
            if (client := getattr(self, "_client", None)) is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(END_S):
                        await client.close()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

        self._wait(end)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(lambda: self._client.__aexit__(kind, None, None))


class BlockingDelivery:
    """The future outcome of a record that a blocking producer sent."""

    def __init__(self, client: Blocking[Producer[Any, Any]], delivery: Delivery) -> None:
        self._client = client
        self._delivery = delivery

    def __repr__(self) -> str:
        return repr(self._delivery)

    @property
    def partition(self) -> int:
        """The partition that the record goes to."""
        return self._delivery.partition

    def done(self) -> bool:
        """Return True if the outcome is known."""
        return self._delivery.done()

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the outcome. Raises DeliveryFailed, or TimeoutError while the record is under way."""

        async def delivered() -> RecordMetadata:
            check_timeout(0 if timeout_s is None else timeout_s)
            async with asyncio.timeout(timeout_s):
                return await self._delivery

        return self._delivery.result() if self.done() else self._client._run(delivered)


async def outcomes(sending: Coroutine[Any, Any, list[Delivery]]) -> list[RecordMetadata]:
    return [await delivery for delivery in await sending]
