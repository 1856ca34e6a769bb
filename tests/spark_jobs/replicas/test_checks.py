"""Which rows come of the audit's pass over segments."""

import random

from spark_jobs.replicas.checks import Ranges


def test_a_batch_is_wanted_if_it_has_an_offset_of_any_range():
    rng = random.Random(5)
    for _ in range(300):
        ranges = [(first, first + rng.randrange(6)) for first in rng.choices(range(40), k=rng.randrange(8))]
        asked = Ranges(ranges)
        for first in range(50):
            for last in range(first, first + 4):
                expected = any(first <= end and last >= begin for begin, end in ranges)
                assert asked.overlap(first, last) == expected, (ranges, first, last)
