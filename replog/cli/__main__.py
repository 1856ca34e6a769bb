"""`python -m replog.cli` is `replog`."""

from replog.cli.main import main

if __name__ == "__main__":
    main()
