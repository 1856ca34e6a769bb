"""Turns rows that a comparison brought to the driver into the types of `findings`."""

from pyspark.sql import Row

from spark_jobs.audit.findings import Interval, Mismatch, ReplicaFault, View


def own_fault(row: Row) -> ReplicaFault:
    """Return a fault of a pass, which no comparison changed."""
    fault = row["found"]
    place = (row["topic"], row["partition"], fault["replica"], fault["segment"], fault["position"])
    epoch = -1 if fault["leader_epoch"] is None else fault["leader_epoch"]
    offsets = (fault["base_offset"], fault["last_offset"])
    return ReplicaFault(fault["fault"], *place, *offsets, epoch, fault["file"], fault["detail"])


def fault_of(row: Row) -> ReplicaFault:
    """Return a fault that went through the comparison of batches."""
    view = row["seen"][0]
    epoch = -1 if view["leader_epoch"] is None else view["leader_epoch"]
    offsets = (row["base_offset"], row["last"])
    where = (view["replica"], view["segment"], view["position"])
    place = (row["topic"], row["partition"])
    return ReplicaFault(row["class"], *place, *where, *offsets, epoch, row["file"], row["detail"], row["count"])


def mismatch_of(row: Row) -> Mismatch:
    views = tuple(View(*view) for view in row["seen"])  # the struct has the fields' order
    pairs = tuple((pair["r1"], pair["r2"]) for pair in row["pairs"])
    place = (row["class"], row["topic"], row["partition"])
    return Mismatch(*place, row["base_offset"], row["last"], row["count"], views, pairs)


def interval_of(row: Row) -> Interval:
    place = (row["topic"], row["partition"], row["kind"], row["first"], row["last"])
    return Interval(*place, (row["r1"], row["r2"]), (row["d1"], row["d2"]))
