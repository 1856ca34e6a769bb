"""How tests speak of the command line as a process."""

import subprocess
from collections.abc import Callable

Replog = Callable[..., subprocess.CompletedProcess[str]]
"""`replog("topic", "list", stdin="", timeout=60, environment={})`, its output captured as text."""
