"""Packages that a command needs and an installation may lack."""

import re
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from replog.command.ending import BadUse

SPARK = ("pyspark", "pyarrow", "numpy", "pandas", "jinja2")  # pyproject's extra of that name


def require(*packages: str) -> None:
    """Raises BadUse if packages are missing, with the command that installs them."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        try:
            declared = requires("replog") or []
        except PackageNotFoundError:  # Spark may run from an archive of the code alone
            declared = []
        wanted = {re.split(r"[^\w.-]", line)[0]: line.partition(";")[0].strip() for line in declared}
        install = " ".join(f"'{wanted.get(package, package)}'" for package in missing)
        raise BadUse(f"missing: {', '.join(missing)}; install them: pip install {install}")
