"""The invariants in the words of `docs/rules.md`, with which the text of a violation begins."""

INVARIANTS = {
    "INV-1": "0 ≤ logStart ≤ HW ≤ LEO; no epoch in a log exceeds its replica's, none the controller's; the ISR is "
    "within the replicas.",
    "INV-2": "A leader is in its ISR.",
    "INV-3": "One leader per partition and epoch, ever.",
    "INV-4": "e never falls; p rises by one per record.",
    "INV-5": "Below a leader's HW, every member of its own maximal ISR holds the same records.",
    "INV-6": "The same for the controller's ISR and any presumed leader.",
    "INV-7": "The controller's ISR is within the leader's maximal ISR.",
    "INV-8": "Every ISR member's LEO is at or past the leader's HW.",
    "INV-9": "HW never falls while a replica leads.",
    "INV-10": "A follower's HW never exceeds what a leader had.",
    "INV-11": "What was committed stays, in every cleanly elected leader, until retention takes it.",
    "INV-12": "What was acknowledged with acks=−1 was committed.",
    "INV-13": "Same offset and same epoch mean same bytes, there and everywhere below.",
    "INV-14": "Epochs never fall along a log.",
    "INV-15": "The epoch cache tells the truth about the log.",
    "INV-16": "Offsets are dense in a log that is not compacted.",
    "INV-17": "An offset has one value for all who read it or were acknowledged.",
    "INV-18": "The latest offset a client sees never falls.",
    "INV-19": "Every delayed operation completes exactly once, in time.",
    "INV-20": "A broker epoch that has passed changes nothing.",
    "INV-21": "When faults end, replicas become equal, HW reaches LEO, and the ISR is everyone alive.",
    "INV-22": "An eligible leader replica holds everything that was ever committed.",
    "ST-7": "Where a follower was when it last fetched, it holds what its leader holds.",
    "ST-13": "A leader has noted where its epoch begins before it serves.",
    "CT-25": "Of several controllers only the one that leads commits, and one at most believes that it leads.",
    "CT-6": "In-sync replicas and leaders are active.",
    "HW-2": "Nothing is exposed while fewer than the minimum are in sync.",
    "HW-3": "The high watermark waits for every replica that may be in sync.",
    "ISR-3": "A replica that is proposed for the ISR has reached HW and the start of the epoch.",
    "LG-18": "With flush.messages=1 what is exposed is on the disks of all who are in sync.",
    "7.7": "A replica that was moved to another log directory is what it was, and lies in one directory.",
    "live": "If a majority could serve, producers that reach it are acknowledged within a bound, during faults too.",
    "loop": "No step of a process keeps its loop waiting for the disk for long.",
    "defect": "A program that is right does not raise this.",
    "stuck": "Something always happens next.",
}


class Violation(AssertionError):
    """`invariant` names the rule (INV-5); the text has what is needed to understand it without a rerun."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
