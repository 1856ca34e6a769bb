"""What an installation lacks is named with a command that brings it."""

from importlib.metadata import requires

import pytest

from replog.command.ending import BadUse
from replog.command.packages import SPARK, require


def test_what_is_missing_is_named_with_the_versions_that_are_wanted(monkeypatch):
    require("typer", "rich")
    monkeypatch.setattr("replog.command.packages.find_spec", {"typer": "there"}.get)
    with pytest.raises(BadUse) as bad_use:
        require("typer", "pyspark", "of-no-extra")
    assert str(bad_use.value) == "missing: pyspark, of-no-extra; install them: pip install 'pyspark>=4.2' 'of-no-extra'"


def test_spark_needs_what_its_extra_says():
    extra = [line.partition(">")[0] for line in requires("replog") or [] if line.endswith("extra == 'spark'")]
    assert sorted(extra) == sorted(SPARK)
