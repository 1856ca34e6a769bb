"""Real servers, of which one at most decides."""

import asyncio

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.transports import transport_named
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.control.controller_link import ControllerLink

CALL_S = 2.0
HEARTBEAT = methods.Controller["heartbeat"]
WATCH = methods.Controller["watch_metadata"]


class Controller:
    """Decides, names another one, or says nothing."""

    def __init__(self):
        self.decides = False
        self.leader = ""
        self.silent = False
        self.refuses: ErrorCode | None = None
        self.asked = 0
        self.address = ""
        self.stepped_down = asyncio.Event()

    def __getattr__(self, name):
        if name not in methods.Controller:
            raise AttributeError(name)
        return self._call

    async def _call(self, _request):
        self.asked += 1
        if self.silent:
            await asyncio.sleep(60)
        if self.refuses is not None:
            raise ReplogError(self.refuses, "not of this cluster, or no longer")
        if not self.decides:
            raise ReplogError(ErrorCode.NOT_CONTROLLER, "not me", instead=self.leader)
        return pb.HeartbeatResponse()

    async def watch_metadata(self, _request):
        await self._call(None)
        yield pb.MetadataDelta(version=1)
        await self.stepped_down.wait()


@pytest.fixture
async def three():
    transport, controllers, servers = transport_named(), [Controller() for _ in range(3)], []
    for controller in controllers:
        server = transport.listen("127.0.0.1:0")
        server.add(methods.CONTROLLER, controller)
        controller.address = await server.start()
        servers.append(server)
    link = ControllerLink(transport, ",".join(controller.address for controller in controllers))
    yield link, *controllers
    await link.close()
    for server in servers:
        await server.stop(0)


async def test_a_call_goes_on_to_the_one_that_is_named_and_later_ones_go_there_at_once(three):
    link, first, second, third = three
    third.decides, first.leader = True, third.address
    await link.call(HEARTBEAT, pb.HeartbeatRequest(), CALL_S)
    await link.call(HEARTBEAT, pb.HeartbeatRequest(), CALL_S)
    assert (first.asked, second.asked, third.asked) == (1, 0, 2)
    assert link.address == third.address


async def test_without_a_name_they_are_asked_in_turn_each_once(three):
    link, first, second, third = three
    with pytest.raises(ReplogError, match="NOT_CONTROLLER: "):
        await link.call(HEARTBEAT, pb.HeartbeatRequest(), CALL_S)
    assert (first.asked, second.asked, third.asked) == (1, 1, 1)


async def test_a_name_that_nobody_has_configured_is_not_believed(three):
    link, first, second, _ = three
    first.leader, second.decides = "127.0.0.1:1", True
    await link.call(HEARTBEAT, pb.HeartbeatRequest(), CALL_S)
    assert link.address == second.address


async def test_one_that_says_nothing_is_left_and_what_still_waits_there_ends(three):
    link, first, second, _ = three
    first.silent = second.decides = True
    waiting = asyncio.create_task(link.call(HEARTBEAT, pb.HeartbeatRequest(), 60))
    with pytest.raises(ReplogError, match="REQUEST_TIMED_OUT: "):
        await link.call(HEARTBEAT, pb.HeartbeatRequest(), 0.2)
    async with asyncio.timeout(30):
        with pytest.raises(ReplogError, match="left for another"):
            await waiting
    await link.call(HEARTBEAT, pb.HeartbeatRequest(), CALL_S)
    assert link.address == second.address


async def test_one_that_was_silent_is_passed_over_for_a_while(three):
    link, first, second, third = three
    first.silent = True
    with pytest.raises(ReplogError):
        await link.call(HEARTBEAT, pb.HeartbeatRequest(), 0.2)
    asked = first.asked
    for _ in range(4):
        with pytest.raises(ReplogError):
            await link.call(HEARTBEAT, pb.HeartbeatRequest(), CALL_S)
    assert first.asked == asked
    assert second.asked > 1 < third.asked


@pytest.mark.parametrize("code", [ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.INCONSISTENT_CLUSTER_ID])
async def test_one_with_other_metadata_is_left_for_one_that_is_right_and_passed_over_for_a_while(three, code):
    link, first, second, third = three
    first.refuses, third.decides = code, True
    await link.call(HEARTBEAT, pb.HeartbeatRequest(), CALL_S)
    third.decides = False
    for _ in range(3):
        with pytest.raises(ReplogError):
            await link.call(HEARTBEAT, pb.HeartbeatRequest(), CALL_S)
    assert first.asked == 1
    assert second.asked > 1 < third.asked


@pytest.mark.parametrize("code", [ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.INCONSISTENT_CLUSTER_ID])
async def test_the_metadata_are_looked_for_elsewhere_when_one_has_others(three, code):
    link, first, second, _ = three
    first.refuses, second.decides = code, True
    with pytest.raises(ReplogError) as refused:
        await anext(link.watch(WATCH, pb.WatchMetadataRequest()))
    assert refused.value.code is code
    again = link.watch(WATCH, pb.WatchMetadataRequest())
    assert (await anext(again)).version == 1
    assert link.address == second.address
    await again.aclose()


async def test_a_refusal_by_all_of_them_is_the_callers(three):
    link, *controllers = three
    for controller in controllers:
        controller.refuses = ErrorCode.STALE_CONTROLLER_EPOCH
    with pytest.raises(ReplogError, match="STALE_CONTROLLER_EPOCH: "):
        await link.call(HEARTBEAT, pb.HeartbeatRequest(), CALL_S)
    assert [controller.asked for controller in controllers] == [1, 1, 1]


async def test_who_will_decide_soon_is_worth_another_try_whatever_others_say(three):
    link, first, _, third = three
    first.refuses = third.refuses = ErrorCode.INCONSISTENT_CLUSTER_ID
    with pytest.raises(ReplogError, match="NOT_CONTROLLER: "):
        await link.call(HEARTBEAT, pb.HeartbeatRequest(), CALL_S)


async def test_a_stream_that_ends_is_looked_for_elsewhere(three):
    link, first, second, _ = three
    first.decides = True
    deltas = link.watch(WATCH, pb.WatchMetadataRequest())
    assert (await anext(deltas)).version == 1
    first.decides, second.decides = False, True
    first.stepped_down.set()
    with pytest.raises(StopAsyncIteration):
        await anext(deltas)
    again = link.watch(WATCH, pb.WatchMetadataRequest())
    assert (await anext(again)).version == 1
    assert link.address == second.address
    await again.aclose()


async def test_a_stream_that_says_nothing_any_more_is_looked_for_elsewhere(three):
    link, first, second, _ = three
    first.decides = True
    deltas = link.watch(WATCH, pb.WatchMetadataRequest())
    await anext(deltas)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await anext(deltas)
    assert link.address == second.address


async def test_one_controller_is_asked_again_and_again(three):
    _, first, _, _ = three
    alone = ControllerLink(transport_named(), first.address)
    for _ in range(3):
        with pytest.raises(ReplogError):
            await alone.call(HEARTBEAT, pb.HeartbeatRequest(), CALL_S)
    assert (first.asked, alone.address) == (3, first.address)
    await alone.close()
