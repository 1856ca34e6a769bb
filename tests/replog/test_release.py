import pytest

from replog.errors import ErrorCode, ReplogError
from replog.release import Release

CONTROLLER = Release("0.5.0", oldest=3, newest=5)


@pytest.mark.parametrize(("oldest", "newest"), [(3, 5), (1, 3), (5, 9), (4, 4), (1, 9)])
def test_releases_that_share_a_feature_level_work_together(oldest, newest):
    CONTROLLER.check_fits(Release("another", oldest, newest), "broker 3")


@pytest.mark.parametrize(("oldest", "newest"), [(1, 2), (6, 7)])
def test_releases_that_share_none_do_not(oldest, newest):
    said = f"broker 3 runs replog 0.1.0, .* levels {oldest} to {newest}, .* this controller runs 0.5.0, .* at 3 to 5"
    with pytest.raises(ReplogError, match=said) as refused:
        CONTROLLER.check_fits(Release("0.1.0", oldest, newest), "broker 3")
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
