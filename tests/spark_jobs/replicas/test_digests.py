"""The digest check of a segment, without Spark: what its points are, and what it reads to know them."""

from dataclasses import replace

from replog.log.files.names import DIGEST_SUFFIX
from replog.log.formats.batch import BatchHeader, add_digests, batch_digest, iterate_batches
from replog.log.indexes.index import DigestIndex
from spark_jobs.replicas.digests import digest_points
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.files import ReadCount
from spark_jobs.replicas.index_check import DIGEST, Point
from tests.spark_jobs.log_directories import END, Cluster, segments


def headers(cluster: Cluster) -> list[BatchHeader]:
    logs = sorted(cluster.path(1, "t").glob("*.log"))
    return [header for path in logs for _, header in iterate_batches(path.read_bytes())]


def digest_below(cluster: Cluster, offset: int) -> tuple[int, int]:
    """Last offset and digest of the batches that end below `offset`."""
    last, digest = -1, 0
    for header in headers(cluster):
        if header.last_offset < offset:
            last, digest = header.last_offset, add_digests(digest, batch_digest(header))
    return last, digest


def points(cluster: Cluster, aligned: list[int], *, entries: bool = False) -> dict[int, int | None]:
    """Digest by offset, of all segments."""
    digests: dict[int, int | None] = {}
    for segment in segments(cluster):
        for item in digest_points(segment, aligned, entries=entries):
            assert isinstance(item, Point), item
            if item.kind == DIGEST:
                assert digests.setdefault(item.offset, item.value) == item.value, "one digest for an offset"
    return digests


def test_every_offset_can_be_aligned_at(cluster):
    for offset in range(1, END + 1):
        assert points(cluster, [offset])[offset - 1] == digest_below(cluster, offset)[1], offset


def test_a_sealed_segment_takes_one_entry(cluster):
    segment = segments(cluster)[0]
    count = ReadCount()
    assert list(digest_points(replace(segment, count=count), [], entries=False))
    assert count.bytes <= 3 * 12


def test_the_first_segment_without_digest_index_says_so_and_no_other(cluster):
    for path in cluster.path(1, "t").glob(f"*{DIGEST_SUFFIX}"):
        path.unlink()
    items = [item for segment in segments(cluster) for item in digest_points(segment, [30], entries=True)]
    (fault,) = [item for item in items if isinstance(item, FileFault)]
    assert (fault.fault, fault.first) == ("NO_DIGESTS", 0)


def test_an_aligned_offset_within_a_batch_has_what_ends_before_it(cluster):
    """As a replica whose batches are cut otherwise has it: there they can be compared."""
    assert points(cluster, [31])[30] == digest_below(cluster, 30)[1]
    assert max(points(cluster, [END + 9])) == END - 1  # nothing is said of offsets that are not there yet


def test_an_empty_sealed_segment_is_a_gap_with_or_without_digest_indexes(cluster):
    second, third = segments(cluster)[1:3]
    (cluster.path(1, "t") / f"{second.base:020d}.log").write_bytes(b"")
    for _ in range(2):
        items = [item for segment in segments(cluster) for item in digest_points(segment, [], entries=False)]
        gaps = [(item.first, item.last) for item in items if isinstance(item, FileFault) and item.fault == "GAP"]
        assert gaps == [(second.base, third.base - 1)], items
        for path in cluster.path(1, "t").glob(f"*{DIGEST_SUFFIX}"):
            path.unlink()


def test_segments_that_overlap_have_offsets_that_come_twice(cluster):
    second, third = segments(cluster)[1:3]
    index = cluster.path(1, "t") / f"{second.base:020d}{DIGEST_SUFFIX}"
    index.write_bytes(index.read_bytes() + DigestIndex.layout.pack(third.base + 1 - second.base, 7))
    items = digest_points(segments(cluster)[1], [], entries=False)
    unknown, twice = sorted((item for item in items if isinstance(item, FileFault)), key=lambda fault: fault.fault)
    assert (twice.fault, twice.first, twice.last) == ("REPEATED", third.base, third.base + 1)
    assert unknown.fault == "NO_DIGESTS"  # of the segments behind it
