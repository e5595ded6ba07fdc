"""`python -m headrace.cli` is `headrace`."""

from headrace.cli.app import main

if __name__ == "__main__":
    main()
