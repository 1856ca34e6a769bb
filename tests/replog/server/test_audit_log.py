"""Denials are told, and who causes many does not fill the disk."""

from structlog.testing import capture_logs

from replog.rpc.peer import Peer, Role
from replog.server import audit_log
from replog.server.audit_log import BURST, LINE_MS, MAX_SHOWN, AuditLog

ANN = Peer("User:ann", Role.CLIENT, "10.0.0.1")
BOB = Peer("User:bob", Role.CLIENT, "10.0.0.2")


class Clock:
    now_ms = 0

    def monotonic_ms(self):
        return self.now_ms

    wall_ms = monotonic_ms


def deny(audit, *peers):
    with capture_logs() as lines:
        for asks in peers:
            audit.denied(asks, "READ", "TOPIC:t", "/replog.v1.Log/Fetch", "no ACL allows it")
    return lines


def test_a_line_says_who_from_where_what_and_why():
    (line,) = deny(AuditLog(Clock()), ANN)
    assert line == {
        "event": "denied",
        "log_level": "info",
        "logger": "replog.authorizer",
        "principal": "User:ann",
        "host": "10.0.0.1",
        "operation": "READ",
        "resource": "TOPIC:t",
        "request": "/replog.v1.Log/Fetch",
        "rule": "no ACL allows it",
        "left_out": 0,
    }


def test_one_principal_has_a_burst_and_then_a_line_a_second_that_says_how_many_were_left_out():
    clock = Clock()
    audit = AuditLog(clock)
    assert len(deny(audit, *[ANN] * 1000)) == BURST
    assert len(deny(audit, BOB)) == 1, "another one has lines of its own"
    for _ in range(3):
        clock.now_ms += LINE_MS
        (line,) = deny(audit, *[ANN] * 500)
        assert line["left_out"] in (990, 499)
    clock.now_ms += 3600 * LINE_MS
    assert len(deny(audit, *[ANN] * 1000)) == BURST, "silence saves up no more than a burst"


def test_a_line_has_a_bound_whatever_a_request_names():
    with capture_logs() as lines:
        AuditLog(Clock()).denied(ANN, "READ", "TOPIC:" + "t" * 4_000_000, "/replog.v1.Log/Fetch", "no ACL allows it")
    assert len(lines[0]["resource"]) == MAX_SHOWN


def test_principals_beyond_those_that_are_remembered_share_their_lines(monkeypatch):
    monkeypatch.setattr(audit_log, "MAX_PRINCIPALS", 2)
    audit = AuditLog(Clock())
    strangers = [Peer(f"User:{number}", Role.CLIENT, "h") for number in range(100)]
    assert len(deny(audit, *strangers)) == 2 + BURST
    assert len(audit._lines) == 3


def test_time_that_does_not_pass_gives_nothing():
    clock = Clock()
    clock.now_ms = 10_000
    audit = AuditLog(clock)
    deny(audit, *[ANN] * BURST)
    assert deny(audit, ANN) == []
