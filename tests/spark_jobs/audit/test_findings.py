"""What is said of the cleaned part of compacted topics, and what counts as compared (CL-10)."""

from spark_jobs.audit.findings import LEVELS, Replica, compared, told_of_cleaned


def replica(number: int, partition: int, cleaned_to: int, mark: int = 100) -> Replica:
    return Replica(number, "t", partition, 0, mark, 120, 1000, 2, cleaned_to=cleaned_to)


def test_what_a_level_does_not_compare_is_told() -> None:
    replicas = [replica(1, 0, 30), replica(2, 0, 50), replica(1, 1, 0), replica(2, 1, 0)]
    assert told_of_cleaned("deep", replicas) == [
        "t-0: below offset 50 replicas were cleaned on their own; compared there record by record"
    ]
    for level in LEVELS[:3]:
        (line,) = told_of_cleaned(level, replicas)
        assert f"below offset 50 replicas were cleaned on their own; level {level} compares nothing there" in line


def test_a_partition_of_which_a_level_compares_nothing_does_not_count() -> None:
    cleaned = [replica(1, 0, 30), replica(2, 0, 100)]
    for level in LEVELS:
        assert compared(level, cleaned) == (level == "deep")
        assert compared(level, [replica(1, 0, 30), replica(2, 0, 99)]) == 1
        assert compared(level, [*cleaned, replica(1, 1, 0), replica(2, 1, 0)]) == (2 if level == "deep" else 1)
        assert compared(level, [replica(1, 0, 0, mark=0), replica(2, 0, 0, mark=0)]) == 1
        assert compared(level, [replica(1, 0, 0)]) == 0
