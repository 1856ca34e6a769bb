"""The user's directories, by the XDG variables."""

import os
from pathlib import Path

from replog.errors import ErrorCode


def user_directory(variable: str, below_home: str) -> Path:
    """Return the directory that `variable` names, such as XDG_CACHE_HOME, else `below_home`.

    Raises INVALID_CONFIG for a user without either, as in a container that runs under any user id."""
    if chosen := os.environ.get(variable):
        return Path(chosen)
    try:
        return Path.home() / below_home
    except RuntimeError:
        raise ErrorCode.INVALID_CONFIG.error(
            f"this user has no home directory; set {variable} or HOME to a directory"
        ) from None
