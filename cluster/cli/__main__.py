"""`python -m cluster.cli` is `replog`."""

from cluster.cli.main import main

if __name__ == "__main__":
    main()
