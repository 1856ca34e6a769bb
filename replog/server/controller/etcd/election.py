"""Leadership of one controller among several: a key in etcd that exists as long as its lease."""

import asyncio
from contextlib import suppress

from replog.errors import ReplogError
from replog.rpc import methods
from replog.rpc.v1 import etcd_pb2
from replog.server.clock import Clock
from replog.server.controller.etcd.client import EtcdClient, Keys, created_at, only, put

RETRY_S = 0.1


class Leadership:
    """A lease counts from the request for it, less a tenth: clocks may differ in speed by so much. So at most one
    controller believes, unless a clock is worse; then the fence of the store holds (CT-25)."""

    def __init__(self) -> None:
        self.epoch = 0  # the create revision of the leader's key, which fences this controller's commits
        self.renew_ms = 0  # how long after a renewal the next one is due
        self._until_ms: int | None = None

    def elected(self, epoch: int, asked_ms: int, lease_ms: int) -> None:
        """This controller holds the leader's key, by a lease that it asked for at `asked_ms`."""
        self.epoch = epoch
        self._until_ms = 0
        self.renewed(asked_ms, lease_ms)

    def renewed(self, asked_ms: int, lease_ms: int) -> None:
        """The lease was renewed by a request at `asked_ms`. A leadership that has ended stays so."""
        if self._until_ms is not None:
            self._until_ms = max(self._until_ms, asked_ms + lease_ms * 9 // 10)
            self.renew_ms = lease_ms // 3

    def end(self) -> None:
        """The lease is lost or given up."""
        self._until_ms = None

    def left_ms(self, now_ms: int) -> int:
        """Return how long this controller may still believe that it leads; 0: it may not."""
        return 0 if self._until_ms is None else max(0, self._until_ms - now_ms)


class Election:
    """Call `stand` until elected, `hold` until the lease is lost, `resign`, and so on."""

    def __init__(self, etcd: EtcdClient, prefix: str, address: str, lease_s: int, clock: Clock) -> None:
        """`address` is where others find this controller."""
        self.leader = ""  # the address of another controller that leads, if it is known; callers are sent there
        self._leadership = Leadership()
        self._etcd = etcd
        self._key = Keys(prefix).leader
        self._address = address
        self._lease_s = lease_s
        self._clock = clock
        self._lease = 0

    @property
    def epoch(self) -> int:
        return self._leadership.epoch

    def leads(self) -> bool:
        """Return True if this controller may believe that it leads."""
        return self._leadership.left_ms(self._clock.monotonic_ms()) > 0

    async def stand(self) -> bool:
        """Try once to be elected, and return True if this controller leads now. Raises the error of etcd."""
        try:
            answer = await self._etcd.call(methods.EtcdKV["range"], etcd_pb2.RangeRequest(key=self._key))
        except ReplogError:
            self.leader = ""  # another one may lead by now
            raise
        leader = only(answer)
        self.leader = _address(leader) if leader is not None else ""
        if self.leader == self._address:
            self.leader = ""  # the key is an earlier term's; otherwise callers would be sent here
        if leader is not None:
            return False
        asked_ms = self._clock.monotonic_ms()
        granted = await self._etcd.call(methods.EtcdLease["lease_grant"], etcd_pb2.LeaseGrantRequest(TTL=self._lease_s))
        self._lease = granted.ID
        mine = put(self._key, self._address.encode(), self._lease)
        request = etcd_pb2.TxnRequest(compare=[created_at(self._key, 0)], success=[mine])
        try:
            answer = await self._etcd.call(methods.EtcdKV["txn"], request)
            if answer.succeeded:
                self._leadership.elected(answer.header.revision, asked_ms, granted.TTL * 1000)
        finally:
            if not self.leads():  # if an answer was lost, the lease is given back, and the next try takes the key
                await self.resign()
        return self.leads()

    async def hold(self) -> None:
        """Renew the lease in time. Returns when it is lost, or may be."""
        leadership = self._leadership
        while (left_ms := leadership.left_ms(self._clock.monotonic_ms())) > 0:
            await asyncio.sleep(min(leadership.renew_ms, left_ms) / 1000)
            with suppress(TimeoutError):
                async with asyncio.timeout(leadership.left_ms(self._clock.monotonic_ms()) / 1000):
                    while not await self._renew():
                        await asyncio.sleep(RETRY_S)

    async def _renew(self) -> bool:
        """Try once to renew the lease. Return True if etcd has answered."""
        asked_ms = self._clock.monotonic_ms()
        request = etcd_pb2.LeaseKeepAliveRequest(ID=self._lease)
        try:
            answer = await self._etcd.call_on_stream(methods.EtcdLease["lease_keep_alive"], request)
        except ReplogError:
            return False
        if answer.TTL > 0:
            self._leadership.renewed(asked_ms, answer.TTL * 1000)
        else:
            self._leadership.end()
        return True

    async def resign(self) -> None:
        """Lead no longer, and let another controller lead at once."""
        self._leadership.end()
        lease, self._lease = self._lease, 0
        if lease:
            with suppress(ReplogError):  # the lease runs out all the same
                await self._etcd.call(methods.EtcdLease["lease_revoke"], etcd_pb2.LeaseRevokeRequest(ID=lease))

    async def close(self) -> None:
        await self._etcd.close()


def _address(leader: etcd_pb2.KeyValue) -> str:
    """Return a leader's address. One of release 0.1.0 has written more behind it."""
    return leader.value.decode(errors="replace").partition(" ")[0]
