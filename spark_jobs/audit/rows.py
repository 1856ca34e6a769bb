"""Rows that a comparison brought to the driver, as what `findings` calls them."""

from pyspark.sql import Row

from spark_jobs.audit.findings import Fault, Interval, Mismatch, View


def own_fault(row: Row) -> Fault:
    """A fault as it came from the pass."""
    found = row["found"]
    return Fault(
        found["fault"],
        row["topic"],
        row["partition"],
        found["replica"],
        found["segment"],
        found["position"],
        found["base_offset"],
        found["last_offset"],
        -1 if found["leader_epoch"] is None else found["leader_epoch"],
        found["file"],
        found["detail"],
    )


def fault_of(row: Row) -> Fault:
    """A fault that went through the comparison of batches."""
    view = row["seen"][0]
    epoch = -1 if view["leader_epoch"] is None else view["leader_epoch"]
    offsets = (row["base_offset"], row["last"])
    where = (view["replica"], view["segment"], view["position"])
    place = (row["topic"], row["partition"])
    return Fault(row["class"], *place, *where, *offsets, epoch, row["file"], row["detail"], row["count"])


def mismatch_of(row: Row) -> Mismatch:
    views = tuple(
        View(
            view["replica"],
            view["last_offset"],
            view["leader_epoch"],
            view["crc"],
            view["size"],
            view["segment"],
            view["position"],
        )
        for view in row["seen"]
    )
    pairs = tuple((pair["r1"], pair["r2"]) for pair in row["pairs"])
    place = (row["class"], row["topic"], row["partition"])
    return Mismatch(*place, row["base_offset"], row["last"], row["count"], views, pairs)


def interval_of(row: Row) -> Interval:
    place = (row["topic"], row["partition"], row["kind"], row["first"], row["last"])
    return Interval(*place, (row["r1"], row["r2"]), (row["d1"], row["d2"]))
