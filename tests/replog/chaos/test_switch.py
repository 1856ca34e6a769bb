"""What becomes of a frame."""

import random
import struct

import pytest

from replog.chaos.switch import ETHERNET_BYTES, MAC_PREFIX, QUEUE_S, Rule, Switch, _checksum, reset_for

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


def mac(port: int) -> bytes:
    return MAC_PREFIX + bytes([port])


def tcp(flags: int, payload: bytes = b"", sequence: int = 1000, acknowledged: int = 5000) -> bytes:
    """From port 4000 of machine 1 to port 9092 of machine 2."""
    segment = struct.pack(">HHIIBBHHH", 4000, 9092, sequence, acknowledged, 5 << 4, flags, 65535, 0, 0) + payload
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 7, 0, 64, 6, 0) + bytes([10, 77, 0, 1, 10, 77, 0, 2])
    return mac(2) + mac(1) + b"\x08\x00" + head + segment


def switch(rule: Rule | None = None, link: tuple[int, int] = (1, 2)) -> Switch:
    made = Switch(random.Random(1))
    made.order([link], rule)
    return made


def test_a_whole_link_passes_frames_on_at_once():
    assert switch().take(1, tcp(ACK), 7.0) == (7.0, 2, tcp(ACK))


def test_a_cut_is_silent_and_of_one_direction():
    cut = switch(Rule(cut=True))
    assert cut.take(1, tcp(ACK), 7.0) is None
    back = mac(1) + mac(2) + tcp(ACK)[12:]
    assert cut.take(2, back, 7.0) == (7.0, 1, back)
    cut.order([(1, 2)], None)
    assert cut.take(1, tcp(ACK), 7.0) == (7.0, 2, tcp(ACK))


def test_a_cut_with_resets_answers_the_sender_and_passes_nothing_on():
    now, port, answer = switch(Rule(cut=True, reset=True)).take(1, tcp(ACK), 7.0) or (0, 0, b"")
    assert (now, port) == (7.0, 1)
    assert answer == reset_for(tcp(ACK))


def test_a_delay_keeps_the_order_of_frames():
    slow = switch(Rule(delay_s=0.1, jitter_s=0.5))
    due = [sent[0] for n in range(50) if (sent := slow.take(1, tcp(ACK), n / 100)) is not None]
    assert len(due) == 50
    assert due == sorted(due)
    assert all(n / 100 + 0.1 <= at for n, at in enumerate(due))
    assert due[0] <= 0.6


def test_a_lossy_link_loses_about_its_share():
    lossy = switch(Rule(loss=0.3))
    lost = sum(lossy.take(1, tcp(ACK), 0.0) is None for _ in range(1000))
    assert 250 <= lost <= 350


def test_a_narrow_link_passes_its_rate_and_drops_what_its_queue_does_not_hold():
    frame = tcp(ACK, bytes(946))
    assert len(frame) == 1000
    narrow = switch(Rule(bytes_per_s=10_000))
    due = [sent[0] for _ in range(100) if (sent := narrow.take(1, frame, 0.0)) is not None]
    assert due == pytest.approx([(n + 1) / 10 for n in range(6)])
    assert narrow.take(1, frame, 0.05) is None
    assert narrow.take(1, frame, 0.6 - QUEUE_S + 0.01) is not None


def test_what_is_meant_for_nobody_in_particular_is_dropped():
    assert switch().take(1, b"\xff" * 6 + tcp(ACK)[6:], 0.0) is None


@pytest.mark.parametrize(
    ("frame", "sequence", "acknowledged"),
    [
        (tcp(SYN), 0, 1001),
        (tcp(ACK | PSH, b"twelve bytes"), 5000, 1012),
        (tcp(ACK | FIN), 5000, 1001),
        (tcp(ACK, b"x", sequence=0xFFFF_FFFF), 5000, 0),
    ],
)
def test_a_reset_is_one_that_its_receiver_takes(frame, sequence, acknowledged):
    """It comes from whom the frame was meant for, at the place in the stream that the sender expects (RFC 9293)."""
    answer = reset_for(frame)
    assert answer is not None
    assert (answer[:6], answer[6:12]) == (mac(1), mac(2))
    packet = answer[ETHERNET_BYTES:]
    assert (packet[12:16], packet[16:20]) == (bytes([10, 77, 0, 2]), bytes([10, 77, 0, 1]))
    assert _checksum(packet[:20]) == 0
    assert _checksum(packet[12:20] + struct.pack(">BBH", 0, 6, 20) + packet[20:]) == 0
    fields = struct.unpack(">HHIIBB", packet[20:34])
    assert fields == (9092, 4000, sequence, acknowledged, 5 << 4, RST | ACK)


def test_nobody_answers_a_reset_or_what_is_no_tcp():
    assert reset_for(tcp(RST)) is None
    assert reset_for(tcp(ACK)[:40]) is None
    assert reset_for(mac(2) + mac(1) + b"\x86\xdd" + bytes(60)) is None
    udp = bytearray(tcp(ACK))
    udp[ETHERNET_BYTES + 9] = 17
    assert reset_for(bytes(udp)) is None
