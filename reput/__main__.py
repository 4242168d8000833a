"""`python -m reput` is the command `reput`."""

from reput.streaming.cli.command import main

if __name__ == "__main__":
    main()
