"""What a container allows, and what a broker makes of it."""

import pytest
from structlog.testing import capture_logs

from replog.config.processes import BrokerConfig
from replog.log.files.open_files import OPEN_FILES, OpenFiles
from replog.rpc import limits
from replog.server.broker.process import BASE_BYTES, fitted, memory_limits

MIB = 1 << 20


@pytest.fixture(autouse=True)
def process(monkeypatch):
    monkeypatch.setattr(limits, "MAX_UNREAD_BYTES", limits.MAX_UNREAD_BYTES)
    before = OPEN_FILES.set(OpenFiles())
    yield
    OPEN_FILES.reset(before)


@pytest.fixture
def config(tmp_path):
    return BrokerConfig(node_id=1, log_dirs=tmp_path)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": f"{256 * MIB}\n"}, 256 * MIB),
        ("0::/a/b\n", {"a/b/memory.max": f"{128 * MIB}\n", "a/memory.max": f"{256 * MIB}\n"}, 128 * MIB),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("0::/../elsewhere\n", {}, None),
        ("4:cpu:/x\n9:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": "1000\n"}, 1000),
        ("nonsense", {}, None),
    ],
)
def test_the_least_of_all_control_groups_counts(tmp_path, own, files, expected):
    (tmp_path / "own").write_text(own)
    for name, content in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(content)
    assert min(memory_limits(tmp_path / "groups", tmp_path / "own"), default=None) == expected
    assert not [*memory_limits(tmp_path, tmp_path / "not there")]


def test_budgets_that_fit_stay_as_they_are(config):
    with capture_logs() as told:
        assert fitted(config, None) is config
        assert fitted(config, 2 << 30) is config
    assert told == []


@pytest.mark.parametrize("mib", [100, 128, 256, 512])
def test_budgets_that_do_not_fit_are_made_smaller_with_one_warning(config, mib):
    with capture_logs() as told:
        smaller = fitted(config, mib * MIB)
    (warning,) = told
    assert warning["limit"] == mib * MIB
    assert warning["queued.max.request.bytes"] == smaller.queued_max_request_bytes < config.queued_max_request_bytes
    together = smaller.queued_max_request_bytes + smaller.queued_max_response_bytes
    together += smaller.log_cleaner_dedupe_buffer_size + OPEN_FILES.get().tails.limit + limits.MAX_UNREAD_BYTES
    least = 4 * MIB + 2 * limits.MAX_REQUEST_BYTES
    assert together <= max(mib * MIB - BASE_BYTES, least) + 2 * limits.MAX_REQUEST_BYTES
    assert limits.MAX_UNREAD_BYTES >= 2 * limits.MAX_REQUEST_BYTES, "one message must be able to come"
