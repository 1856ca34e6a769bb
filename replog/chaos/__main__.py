"""`python -m replog.chaos` starts a run in new namespaces, or ends with status 77 and the reason why it cannot."""

import os
import shutil
import subprocess
import sys
from typing import NoReturn

NOT_ALLOWED = 77
NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
TUN = "/dev/net/tun"
TIMEOUT_S = 30.0


def obstacle() -> str:
    """Return the reason why this machine does not allow a run; empty if it does."""
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            return f"{program} is not on PATH: install util-linux and iproute2"
    try:
        os.close(os.open(TUN, os.O_RDWR))
    except OSError as error:
        return f"{TUN} cannot be opened ({error.strerror}): it takes root and a kernel with TUN"
    done = subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True, text=True, timeout=TIMEOUT_S)
    return f"namespaces are not allowed here: {done.stderr.strip()}" if done.returncode else ""


def main() -> NoReturn:
    if reason := obstacle():
        print(reason, file=sys.stderr)
        sys.exit(NOT_ALLOWED)
    run = [sys.executable, "-m", "replog.chaos.run", *sys.argv[1:]]
    os.execvp("unshare", ["unshare", *NAMESPACES, *run])


if __name__ == "__main__":
    main()
