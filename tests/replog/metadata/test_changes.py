from replog.metadata.changes import Change, Tombstones


def tombstones(*changes):
    made = Tombstones()
    for version, change in enumerate(changes, 1):
        made.put(change._replace(version=version))
    return made


def test_the_oldest_deletions_up_to_a_version_until_they_are_collected():
    deletions = [Change("topic", name, None) for name in "abc"]
    before = tombstones(Change("cluster", None, "c"), *deletions)
    assert before.up_to(3) == {"topic/a": 2, "topic/b": 3}
    assert before.up_to(3, limit=1) == {"topic/a": 2}
    assert tombstones(Change("cluster", None, "c"), *deletions, Change("collected", None, 3)).up_to(9) == {"topic/c": 4}


def test_what_was_made_again_is_not_deleted():
    assert tombstones(Change("topic", "a", None), Change("topic", "a", "anything")).up_to(9) == {}
