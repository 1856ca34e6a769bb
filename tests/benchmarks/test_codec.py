"""The comparison of codecs: its cases are messages, and it says what is too slow."""

from benchmarks.codec import cases, missed, ours, shown


def test_every_case_is_encoded_and_decoded():
    for case in cases():
        data = b"".join(ours(case).encode(case.message))
        assert b"".join(ours(case).encode(ours(case).decode(data))) == data, case.title


def test_what_is_too_slow_is_named():
    good = {"bytes": 20.0, "ours decodes": 5.0, "ours encodes": 1.0, "kio decodes": 15.0, "kio encodes": 3.0}
    mib = "Produce request, 1 × 1,024 KiB, v9"
    assert any(f"{case.title}, v{case.version}" == mib for case in cases())
    assert list(missed({mib: good, "other": {**good, "kio decodes": 1.0}})) == []
    report = {mib: {**good, "kio decodes": 14.0}, "other": {**good, "kio encodes": 2.0}}
    assert [line.partition(":")[0] for line in missed(report)] == [mib, "other"]
    assert shown(report).count("\n") == 3
