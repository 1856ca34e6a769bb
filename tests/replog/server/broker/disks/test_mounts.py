"""A log directory that is not mounted is not taken for a new one without a word."""

import pytest
from structlog.testing import capture_logs

from replog.errors import ReplogError
from replog.log.directories.identity import META_PROPERTIES
from replog.server.broker.disks.mounts import check_known
from replog.topic import TopicPartition

PLACED = [TopicPartition("t", number) for number in range(4)]


@pytest.mark.parametrize(
    ("known", "placed", "missing"),
    [
        ((), [], None),  # a new broker
        (("d1", "d2"), PLACED, None),
        (("d1",), PLACED, 3),
        (("d1",), [], 0),
        ((), PLACED, 3),
    ],
)
def test_an_empty_directory_is_told_where_it_should_not_be_and_refused_if_that_is_required(
    tmp_path, known, placed, missing
):
    directories = [tmp_path / "d1", tmp_path / "d2"]
    (tmp_path / "d1" / "t-0").mkdir(parents=True)
    for name in known:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / META_PROPERTIES).touch()
    with capture_logs() as told:
        check_known(directories, placed, required=False)
    reasons = [line["reason"] for line in told]
    if missing is None:
        assert reasons == []
        check_known(directories, placed, required=True)
        return
    said = f"{tmp_path / 'd2'} is empty, and the cluster places {missing} replicas on it; is its disk mounted?"
    assert reasons[-1] == said
    assert len(reasons) == 2 - len(known)
    with pytest.raises(ReplogError, match=r"log\.dirs\.require\.known=false"):
        check_known(directories, placed, required=True)


async def test_a_start_that_is_refused_leaves_the_directory_as_it_was_so_the_next_is_refused_too(cluster):
    await cluster.start_broker(1, log_dirs_require_known=True)
    await cluster.create_topic("t", replication_factor=1)
    await cluster.stop_broker(1)
    home = cluster.directory / "broker-1"
    home.rename(home.with_name("not mounted"))
    home.mkdir()
    for _ in range(2):
        broker = cluster.new_broker(1, log_dirs_require_known=True)
        with pytest.raises(ReplogError, match="places 1 replicas on it; is its disk mounted"):
            await broker.start()
        assert not any(home.iterdir())
