"""The invariants in words, as `docs/rules.md` has them: what a violation says first."""

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
    "defect": "A program that is right does not raise this.",
    "stuck": "Something always happens next.",
}
