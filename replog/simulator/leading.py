"""CT-25: of several controllers over one etcd only the leader commits, and only one believes that it leads."""

from replog.rpc.v1 import etcd_pb2
from replog.rpc.v1.etcd_store_pb2 import StoreHead
from replog.server.controller.etcd.client import Keys, only
from replog.simulator.cluster.members import ControllerMember, EtcdMember
from replog.simulator.etcd import PREFIX
from replog.simulator.invariants import Violation
from replog.simulator.runtime.process import CONTROLLER, SimulatedProcess


class ControllersCheck:
    """Checks the controllers and their etcd; call `after_step` after each step of any process."""

    def __init__(self, etcd: EtcdMember, controllers: list[ControllerMember]) -> None:
        self._etcd = etcd
        self._controllers = controllers
        self._keys = Keys(PREFIX)
        self._revision = etcd.state.revision  # the revision at the last look
        self._version = 0  # the version of the metadata at the last look

    def after_step(self, process: SimulatedProcess) -> None:
        if process is self._etcd.process and self._etcd.state.revision != self._revision:
            self._revision = self._etcd.state.revision
            self._check_commit()
        elif process.name.startswith(CONTROLLER):
            self._check_beliefs()

    def _check_commit(self) -> None:
        stored, leader = self._now(self._keys.head), self._now(self._keys.leader)
        if stored is None or stored.mod_revision != self._revision:
            return
        head = StoreHead.FromString(stored.value)
        if leader is None or leader.create_revision != head.epoch:
            raise Violation(
                "CT-25",
                f"the controller of epoch {head.epoch} has committed version {head.version}, and "
                f"{f'that of epoch {leader.create_revision}' if leader else 'nobody'} leads",
            )
        if head.version < self._version:
            raise Violation("INV-4", f"the store was at version {self._version}, and now at {head.version}")
        self._version = head.version

    def _now(self, key: bytes) -> etcd_pb2.KeyValue | None:
        return only(self._etcd.state.range(etcd_pb2.RangeRequest(key=key)))

    def _check_beliefs(self) -> None:
        """Raise Violation if two believe that they lead. One whose lease was revoked does not count: it cannot know."""
        believing = [
            member.name
            for member in self._controllers
            if member.server is not None and member.server.decides and member.server.epoch not in self._etcd.revoked
        ]
        if len(believing) > 1:
            raise Violation("CT-25", f"{' and '.join(believing)} believe that they lead")
