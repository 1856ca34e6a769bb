"""Named mixes of faults with their rates, from none at all to everything at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

SESSION_MS = 1000
STEP_LIMIT_S = 0.05


class FaultKind(StrEnum):
    """Every fault of the nemesis; the value is its name in tables and traces."""

    CUT_LINK = "cut one link"
    CUT_ONE_WAY = "cut one direction of a link"
    ISOLATE_BROKER = "isolate a broker"
    ISOLATE_FROM_CONTROLLER = "isolate a broker from the controller"
    ISOLATE_BYSTANDER = "isolate a bystander from the controller, and kill a leader"
    ISOLATE_FROM_BROKERS = "isolate a leader from its followers"
    SPLIT = "split the cluster"
    DUEL = "isolate leader after leader of two"
    FALSE_ALARM = "lose a broker's metadata stream, and say that the broker is gone"
    BREAK_CONNECTIONS = "break connections"
    SLOW_LINK = "slow a link"
    SLOW_FOLLOWER = "slow a follower to about the lag limit"
    SLOW_METADATA = "slow what the controller tells a broker"

    KILL = "kill a broker"
    KILL_AT_FILE_OPERATION = "kill a broker at a file operation"
    KILL_STARTING = "kill a broker that starts"
    KILL_STOPPING = "kill a broker that stops"
    KILL_LEADERS = "kill leader after leader"
    POWER_LOSS = "power loss of a broker"
    RESTART = "restart a broker cleanly"
    ROLLING_RESTART = "restart all brokers, one after the other"
    PAUSE = "pause a broker"
    CLOCK_JUMP = "make a wall clock jump"
    DELETE_RECORDS_WHILE_DOWN = "delete records while a follower is down"

    KILL_CONTROLLER = "kill the controller"
    KILL_CONTROLLER_BEFORE_COMMIT = "kill the controller before a commit"
    KILL_CONTROLLER_AFTER_COMMIT = "kill the controller after a commit"
    STOP_CONTROLLER = "restart the controller cleanly"
    PAUSE_CONTROLLER = "pause the controller"
    STORE_FAILS = "metadata store refuses commits"

    OLDER_STORE = "put an older copy of the metadata store back"
    NEW_STORE = "make the metadata store again, empty"
    LOSE_STORE = "lose the metadata store, and make it of disks and perhaps an older copy"

    ELECT_PREFERRED = "elect preferred leaders"
    REASSIGN = "move a partition to other brokers"
    HAND_ROUND = "hand leadership round"
    ELECT_UNCLEAN = "elect a leader that is not in sync"
    MOVE_LOG_DIR = "move replicas between log directories"
    ALTER_SETTINGS = "alter settings of a topic"
    STORE_SETTINGS = "store settings and an ACL as another release would"

    DISK_FULL = "fill a disk"
    DISK_ERROR = "make a disk fail"
    NO_DESCRIPTORS = "let a broker open no more files"
    DENIED = "deny a broker its files"
    SLOW_DISK = "slow a disk"
    STALL_DISK = "stall a disk"
    WIPE_DISK = "replace a disk by an empty one"
    FLIP_BIT = "flip a bit of a log"
    ALL_DOWN_ONE_EMPTY = "take all brokers down, and let one come back empty"
    NO_DISK_MOUNTED = "start all brokers without their disks, and mount these one after the other"

    BREAK_UNDER_PROPOSAL = "break the connection that a proposal takes"
    REPEAT_LATE = "repeat requests to the controller late"
    RESTART_BEFORE_REQUESTS = "restart a broker before its requests arrive"
    RESTART_UNANSWERED = "restart brokers while producers wait for answers"
    LEAD_ALONE = "let a laggard lead alone, and delete what it lacks"
    WRONG_CLOCK = "set a clock wrong by a month"

    CUT_FROM_ETCD = "cut the controller off from etcd"
    SLOW_ETCD = "slow the way to etcd"
    STOP_ETCD = "restart etcd"
    PAUSE_ETCD = "pause etcd"
    LOSE_LEASE = "take the controller's lease away"
    OTHER_CONTROLLER = "start a controller of another cluster beside the others, for good"


def _from(first: str, *, to: str) -> str:
    """Return the names from `first` to `to`, in the order of `FaultKind`."""
    names = list(FaultKind.__members__)
    return " ".join(names[names.index(first) : names.index(to) + 1])


NETWORK = _from("CUT_LINK", to="SLOW_METADATA")
CRASHES = _from("KILL", to="DELETE_RECORDS_WHILE_DOWN")
CONTROLLERS = _from("KILL_CONTROLLER", to="STORE_FAILS")
LEADERSHIP = "ELECT_PREFERRED REASSIGN HAND_ROUND KILL_LEADERS ROLLING_RESTART"
DISKS = "DISK_FULL DISK_ERROR SLOW_DISK STALL_DISK WIPE_DISK FLIP_BIT POWER_LOSS"
FAILOVER = "SLOW_LINK CUT_ONE_WAY BREAK_CONNECTIONS FALSE_ALARM DUEL KILL_LEADERS PAUSE"
ISR = "SLOW_LINK CUT_ONE_WAY ISOLATE_FROM_CONTROLLER ISOLATE_FROM_BROKERS RESTART"
DIRECTORIES = (
    "KILL KILL_STARTING KILL_LEADERS POWER_LOSS RESTART DELETE_RECORDS_WHILE_DOWN ISOLATE_FROM_BROKERS REASSIGN "
    "DISK_FULL"
)
COMPACTION = f"{CRASHES} HAND_ROUND REASSIGN MOVE_LOG_DIR SLOW_FOLLOWER DISK_FULL SLOW_DISK FLIP_BIT"
TRANSACTIONS = f"{CRASHES} HAND_ROUND SLOW_METADATA SLOW_FOLLOWER ISOLATE_FROM_BROKERS REASSIGN DISK_ERROR"
SETTINGS = "KILL KILL_LEADERS ISOLATE_FROM_CONTROLLER ISOLATE_FROM_BROKERS SLOW_FOLLOWER PAUSE"
UNCLEAN = "KILL KILL_LEADERS RESTART PAUSE CUT_ONE_WAY ISOLATE_FROM_CONTROLLER REASSIGN POWER_LOSS"
STRAGGLERS = _from("BREAK_UNDER_PROPOSAL", to="RESTART_UNANSWERED")
MANY = "KILL RESTART POWER_LOSS ISOLATE_BROKER PAUSE KILL_CONTROLLER ELECT_PREFERRED SLOW_DISK"
LASTING = (
    "CUT_LINK CUT_ONE_WAY ISOLATE_BROKER ISOLATE_FROM_CONTROLLER ISOLATE_FROM_BROKERS ISOLATE_BYSTANDER SPLIT PAUSE "
    "SLOW_DISK STALL_DISK"
)
SEVERAL_CONTROLLERS = _from("CUT_FROM_ETCD", to="OTHER_CONTROLLER")
STORES = _from("OLDER_STORE", to="LOSE_STORE")  # not with WIPE_DISK: an empty disk takes any store
# rare or strange: only profiles that name them have them
CONTRIVED = (
    f"{STRAGGLERS} {SEVERAL_CONTROLLERS} {STORES} LEAD_ALONE WRONG_CLOCK NO_DESCRIPTORS DENIED ALL_DOWN_ONE_EMPTY "
    "NO_DISK_MOUNTED"
)
ANYTHING = " ".join(name for name in FaultKind.__members__ if name not in CONTRIVED.split())


@dataclass(frozen=True, slots=True)
class Profile:
    """`faults` maps each kind to the number of them that begin per virtual minute, on average."""

    name: str
    description: str
    faults: Mapping[FaultKind, float] = field(default_factory=dict)
    swarm: bool = False  # each seed takes only a third of the kinds, at a higher rate
    rough_network: bool = True  # messages are delayed, dropped, repeated and overtaken all the time
    brokers: tuple[int, int] = (3, 5)
    long_s: float = 8.0  # the longest duration of a long fault
    topics: tuple[int, int] = (1, 2)
    partitions: tuple[int, int] = (1, 2)  # each topic's
    scratch_partitions: int = 1  # each topic's that is created and deleted again and again
    session_ms: int = SESSION_MS
    trouble_s: tuple[float, float] = (8.0, 20.0)
    unclean: float = 0.0  # the share of topics that may have unclean elections
    compacted: float = 0.0  # the share of topics that are compacted
    transactions: float = 0.0  # the share of topics with transactions
    expiring: float = 0.0  # the share of topics with retention by time, longer than a simulation lasts
    two_disks: float = 0.3  # the share of seeds whose brokers have two log directories
    controllers: int = 1  # several share an etcd
    permission: bool = False  # brokers and controller have an authorizer, and a stranger calls everything
    kafka: bool = False  # some clients speak Kafka's protocol
    step_limit_s: float = STEP_LIMIT_S  # the longest time that a step of a loop may wait for a usual disk


def _at(rate: float, names: str) -> dict[FaultKind, float]:
    return dict.fromkeys((FaultKind[name] for name in names.split()), rate)


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("calm", "nothing fails; the network is fast and in order", rough_network=False, trouble_s=(8.0, 15.0)),
        Profile("network", "partitions, slow links, broken connections", _at(3.0, NETWORK)),
        Profile("crashes", "kills, power losses, pauses, restarts", _at(2.0, CRASHES)),
        Profile("controller", "the controller and its store fail", _at(3.0, CONTROLLERS) | _at(2.0, "KILL")),
        Profile(
            "controllers",
            "three controllers over an etcd, which fail, are cut off from it, and lose their leases",
            _at(4.0, SEVERAL_CONTROLLERS)
            | _at(3.0, "KILL_CONTROLLER STOP_CONTROLLER PAUSE_CONTROLLER")
            | _at(2.0, "KILL RESTART CUT_ONE_WAY HAND_ROUND"),
            controllers=3,
        ),
        Profile(
            "stores",
            "the controller runs on an older copy of its store, or on an empty one, or loses it, while brokers die",
            _at(8.0, STORES)
            | _at(3.0, "KILL KILL_LEADERS SLOW_FOLLOWER RESTART")
            | _at(1.0, "POWER_LOSS ISOLATE_FROM_CONTROLLER KILL_CONTROLLER"),
            compacted=0.3,
        ),
        Profile("moves", "elections and partitions on the move", _at(3.0, LEADERSHIP) | _at(2.0, "KILL")),
        Profile(
            "disks",
            "full, failing, slow and stalled disks, lost disks, flipped bits",
            _at(3.0, DISKS) | _at(1.0, "KILL"),
        ),
        Profile(
            "failover",
            "leader after leader, and brokers that hear of it late",
            _at(8.0, "HAND_ROUND SLOW_METADATA") | _at(2.0, FAILOVER),
        ),
        Profile(
            "isr",
            "followers around the lag limit, and answers about the ISR that come late",
            _at(8.0, "SLOW_FOLLOWER SLOW_METADATA") | _at(3.0, ISR) | _at(2.0, CONTROLLERS),
        ),
        Profile(
            "unclean",
            "leaders that are not in sync are elected",
            _at(12.0, "ELECT_UNCLEAN") | _at(2.0, UNCLEAN),
            unclean=0.8,
        ),
        Profile(
            "elections",
            "all brokers go down, and some of them come back with less than others, or with nothing",
            _at(6.0, "ALL_DOWN_ONE_EMPTY KILL_LEADERS ISOLATE_FROM_BROKERS")
            | _at(3.0, "KILL SLOW_FOLLOWER WIPE_DISK KILL_CONTROLLER NO_DISK_MOUNTED"),
        ),
        Profile(
            "power", "power losses and kills", _at(8.0, "POWER_LOSS") | _at(3.0, "KILL KILL_AT_FILE_OPERATION RESTART")
        ),
        Profile(
            "directories",
            "replicas that move between log directories while brokers die",
            _at(40.0, "MOVE_LOG_DIR") | _at(2.0, DIRECTORIES),
            two_disks=1.0,
        ),
        Profile(
            "compaction",
            "topics of which the latest record of each key stays, cleaned while leaders and disks fail",
            _at(3.0, COMPACTION),
            compacted=1.0,
            transactions=0.3,
        ),
        Profile(
            "transactions",
            "transactions in the log, while leaders come and go",
            _at(3.0, TRANSACTIONS),
            compacted=0.2,
            transactions=1.0,
        ),
        Profile(
            "settings",
            "settings that are altered, and throttles, while leaders change",
            _at(6.0, "ALTER_SETTINGS") | _at(3.0, f"STORE_SETTINGS {SETTINGS}"),
        ),
        Profile(
            "stragglers",
            "requests and answers that outlive their sender, or what they were about",
            _at(6.0, STRAGGLERS)
            | _at(4.0, "SLOW_FOLLOWER SLOW_METADATA ISOLATE_FROM_BROKERS")
            | _at(3.0, "RESTART HAND_ROUND ELECT_PREFERRED REASSIGN"),
        ),
        Profile(
            "laggards",
            "replicas that lag lead, and nobody hears of it; records that they lack are deleted",
            _at(15.0, "LEAD_ALONE") | _at(3.0, "DELETE_RECORDS_WHILE_DOWN KILL"),
        ),
        Profile(
            "clocks",
            "a clock, a broker's or the controller's, that is wrong by a month for a while",
            _at(20.0, "WRONG_CLOCK")
            | _at(2.0, "KILL RESTART HAND_ROUND KILL_CONTROLLER")
            | _at(1.0, "PAUSE ISOLATE_FROM_CONTROLLER REASSIGN"),
            expiring=1.0,
            compacted=0.3,
        ),
        Profile(
            "many",
            "hundreds of partitions, made, deleted, and failing over together",
            _at(2.0, MANY),
            partitions=(25, 150),
            scratch_partitions=50,
        ),
        Profile(
            "thousand",
            "a thousand partitions on three brokers",
            _at(2.0, MANY),
            brokers=(3, 3),
            topics=(2, 2),
            partitions=(500, 500),
            scratch_partitions=200,
            session_ms=9000,
        ),
        Profile(
            "serving",
            "few faults that last, so that a majority could go on serving",
            _at(1.0, LASTING) | _at(0.5, "KILL KILL_CONTROLLER RESTART"),
            trouble_s=(60.0, 90.0),
            long_s=60.0,
        ),
        Profile(
            "descriptors",
            "brokers that can open no more files, or may not, for a while",
            _at(10.0, "NO_DESCRIPTORS DENIED") | _at(2.0, "KILL RESTART REASSIGN HAND_ROUND"),
        ),
        Profile(
            "permission",
            "clients may do what they need and a stranger nothing, while brokers and controller fail",
            _at(1.0, NETWORK) | _at(2.0, CRASHES) | _at(2.0, CONTROLLERS),
            permission=True,
        ),
        Profile(
            "kafka",
            "clients that speak Kafka's protocol beside the others, while everything fails",
            _at(1.5, ANYTHING),
            kafka=True,
            compacted=0.1,
            transactions=0.1,
        ),
        Profile(
            "storm",
            "everything at once",
            _at(1.5, ANYTHING),
            brokers=(3, 7),
            unclean=0.1,
            compacted=0.1,
            transactions=0.1,
        ),
        Profile(
            "swarm",
            "each seed its own mix of kinds",
            _at(1.5, ANYTHING),
            swarm=True,
            brokers=(3, 7),
            unclean=0.15,
            compacted=0.15,
            transactions=0.1,
        ),
        Profile(
            "quick",
            "a short swarm on few brokers, for test suites",
            _at(1.2, ANYTHING),
            swarm=True,
            trouble_s=(6.0, 12.0),
            brokers=(3, 4),
            compacted=0.15,
            transactions=0.1,
        ),
    )
}
