"""What a SparkApplication names as its main file: the command, with its arguments."""

from reput.streaming.cli.main import main

main()
