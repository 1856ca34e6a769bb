"""`replog`, and `python -m replog.cli`. Ctrl-C ends it without a traceback, also during the imports."""

import sys

try:
    from replog.cli.main import main
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    main()
