import random

import pytest

from replog.errors import ErrorCode
from replog.server.controller.formatting import format_cluster, is_formatted
from replog.server.controller.sqlite_store import SqliteStore


def test_a_formatted_store_holds_the_cluster_id_and_nothing_else(tmp_path):
    cluster_id = format_cluster(tmp_path / "metadata", rng=random.Random(1))
    assert is_formatted(tmp_path / "metadata")
    store = SqliteStore(tmp_path / "metadata")
    assert [(r.version, r.cluster.cluster_id) for r in store.load()] == [(1, cluster_id)]
    store.close()


def test_a_store_that_is_there_is_never_formatted_again(tmp_path, refused):
    assert format_cluster(tmp_path, "mine") == "mine"
    with refused(ErrorCode.KAFKA_STORAGE_ERROR, "already"):
        format_cluster(tmp_path, "another")


@pytest.mark.parametrize("wrong", ["-x", "a/b", "a" * 65, "a b"])
def test_a_cluster_id_has_only_usual_characters(tmp_path, refused, wrong):
    with refused(ErrorCode.INVALID_REQUEST, "cluster id"):
        format_cluster(tmp_path, wrong)
    assert not is_formatted(tmp_path)
