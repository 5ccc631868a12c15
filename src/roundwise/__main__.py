"""`python -m roundwise`."""

from roundwise.cli import main

if __name__ == "__main__":
    main()
