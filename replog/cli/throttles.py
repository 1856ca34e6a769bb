"""Throttles of moves, and those that somebody has set by hand (KIP-73)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replog.client.descriptions import BrokerDescription, TopicDescription

SIDES = ("leader", "follower")
SHOWN = 5  # topics or brokers on a line


def throttles(topics: Iterable["TopicDescription"], brokers: Iterable["BrokerDescription"]) -> dict[str, Any]:
    """Return lists of throttled replicas by topic, rates by broker, and the rate of each partition that moves."""
    topics = list(topics)
    return {
        "topics": _set({topic.topic: topic.configs for topic in topics}, "replication.throttled.replicas"),
        "brokers": _set({str(broker.broker_id): broker.configs for broker in brokers}, "replication.throttled.rate"),
        "moves": {f"{t.topic}-{p.partition}": p.throttle for t in topics for p in t.partitions if p.throttle},
    }


def _set(configs: dict[str, Any], name: str) -> dict[str, dict[str, str]]:
    settings = {
        who: {side: its[f"{side}.{name}"] for side in SIDES if f"{side}.{name}" in its} for who, its in configs.items()
    }
    return {who: its for who, its in settings.items() if its}


def by_hand(topics: Iterable["TopicDescription"], brokers: Iterable["BrokerDescription"], before: str = "") -> str:
    """Say what is throttled by hand, after `before`; "" if nothing is. Lists and rates are both named, as one works
    only with the other, and a broker may have been started with a rate."""
    known = throttles(topics, brokers)
    rates = [f"{who} ({', '.join(' '.join(rate) for rate in its.items())})" for who, its in known["brokers"].items()]
    named = [
        f"{what} {', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''}"
        for what, names in (("replicas of topics", list(known["topics"])), ("bytes a second of brokers", rates))
        if names
    ]
    return f"{before}throttled by hand: {'; '.join(named)}" if named else ""
