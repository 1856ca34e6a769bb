"""The small models: what has happened already, and what may still happen, in every order."""

from typing import NamedTuple

from tests.replog.models.moment import Bounds, Step
from tests.replog.models.replica import EVERYTHING


class SmallModel(NamedTuple):
    bounds: Bounds
    beginning: tuple[Step, ...] = ()
    eligible_leaders: bool = True


FIRST = (("append", 1), ("fetch", 2))  # one record, which 2 has, and nobody has committed
COMMITTED = (*FIRST, ("fetch", 3), ("fetch", 2), ("fetch", 3))  # and the followers do not know
DROPPED = (  # 2 is out of the ISR, without a record
    *(("append", 1), ("fetch", 3), ("fetch", 3), ("lag", 1), ("decide", 1)),
)
UNHEARD = (*DROPPED, ("expire", (3,)), ("beat", 3))  # 3 is, too, for it was fenced, and 1 does not know
FORGOTTEN = (  # 2 has the record, out of sync; 3 is remembered nowhere: its disk came back empty; then 1 died
    *(*DROPPED, ("fetch", 2), ("kill", 3), ("expire", (3,)), ("start", 3, EVERYTHING), ("kill", 1), ("expire", (1,))),
)
OVERTAKEN = (  # 2 was out of the ISR and is to join it; a first copy of that proposal is late
    *(*FIRST, ("lag", 1), ("decide", 1), ("fetch", 2), ("repeat", 1)),
)
DIVERGED = (*FIRST, ("append", 1), ("fetch", 3), ("expire", (1,)), ("hear", 2), ("append", 2))  # 2 against 1 and 3
RETURNED = (  # as DIVERGED, and 1 is in sync again; a fetch of 3 has been on its way to it since it led
    *(*DIVERGED[:4], ("ask", 3), *DIVERGED[4:]),
    *(("beat", 1), ("hear", 2), ("catch_up", 1), ("fetch", 1), ("fetch", 1), ("decide", 2)),
)
ONE_LEFT = (*COMMITTED, ("kill", 3), ("expire", (3,)), ("kill", 2))
LAST_DEAD = (*ONE_LEFT, ("expire", (2,)), ("kill", 1), ("expire", (1,)), ("start", 3, 0), ("start", 2, 0))
PASSED_OVER = (  # 1 knows that 3 has its record; then 2 led without it, and 1 did not hear of that
    *(("append", 1), ("fetch", 3), ("fetch", 3), ("expire", (3,)), ("expire", (1,)), ("beat", 3), ("catch_up", 2)),
    *(("catch_up", 3), ("fetch", 3), ("beat", 1)),
)
RETAINED = (  # retention deleted two records, 2 begins behind them, 1 came back empty, and 3, which has them, died
    *(*DROPPED, ("append", 1), ("fetch", 3), ("fetch", 3), ("retain", 1), ("fetch", 2), ("kill", 1), ("expire", (1,))),
    *(("start", 1, EVERYTHING), ("kill", 3), ("expire", (3,))),
)
OUTRUN = (  # 2 and 3 have a committed record of a newer epoch, 1 has more records, and all have died at once
    *(*FIRST, ("append", 1), ("append", 1), ("expire", (1,)), ("hear", 2), ("hear", 3), ("append", 2)),
    *(("fetch", 3), ("fetch", 3), ("kill", 1), ("kill", 2), ("kill", 3), ("expire", (3,)), ("expire", (2,))),
    *(("start", 1, 0), ("start", 2, 0), ("start", 3, 0)),
)

MODELS = {
    "elections": SmallModel(Bounds(appends=1, suspicions=1)),
    "crashes": SmallModel(Bounds(appends=1, crashes=1, losses=1)),
    "committed": SmallModel(Bounds(appends=0, suspicions=1), COMMITTED),
    "lagging": SmallModel(Bounds(appends=1, lags=1), FIRST),
    "without-elr": SmallModel(Bounds(appends=1, lags=1), FIRST, eligible_leaders=False),
    "dropped": SmallModel(Bounds(appends=1, suspicions=1), DROPPED),
    "unheard": SmallModel(Bounds(appends=1), UNHEARD),
    "forgotten": SmallModel(Bounds(appends=0, losses=1), FORGOTTEN),
    "diverged": SmallModel(Bounds(appends=0, suspicions=1), DIVERGED),
    "pushes": SmallModel(Bounds(appends=0, pushes=1), DIVERGED),
    "returned": SmallModel(Bounds(appends=0, suspicions=1), RETURNED),
    "passed-over": SmallModel(Bounds(appends=0, suspicions=1), PASSED_OVER),
    "slow": SmallModel(Bounds(appends=1, delays=1)),
    "proposals": SmallModel(Bounds(appends=0, suspicions=1, delays=1), (*FIRST, ("lag", 1))),
    "overtaken": SmallModel(Bounds(appends=1, suspicions=1), OVERTAKEN),
    "one-left": SmallModel(Bounds(appends=0, crashes=1, losses=1), ONE_LEFT),
    "last-dead": SmallModel(Bounds(appends=0, losses=1), LAST_DEAD),
    "outrun": SmallModel(Bounds(appends=0), OUTRUN),
    "deleting": SmallModel(Bounds(appends=0, deletions=1), DROPPED),
    "retained": SmallModel(Bounds(appends=0, losses=1), RETAINED),
    "resigning": SmallModel(Bounds(appends=1, resignations=1)),
}

NIGHTLY = {
    **MODELS,
    "two-elections": SmallModel(Bounds(appends=2, suspicions=2)),
    "three-records": SmallModel(Bounds(appends=3, crashes=1, losses=1, suspicions=1)),
    "slow-elections": SmallModel(Bounds(appends=1, suspicions=1, delays=1, pushes=1)),
    "slow-proposals": SmallModel(Bounds(appends=1, lags=1, delays=1, suspicions=1), FIRST),
    "slow-restarts": SmallModel(Bounds(appends=1, crashes=1, losses=1, delays=1), FIRST),
    "fail-overs": SmallModel(Bounds(appends=1, crashes=3, losses=1, failovers=1), COMMITTED),
    "overtaken-fail-overs": SmallModel(Bounds(appends=0, suspicions=1, failovers=1), OVERTAKEN),
    "resignations": SmallModel(Bounds(appends=1, resignations=1, suspicions=1, delays=1), FIRST),
}
