"""What a SparkApplication names as its main file: the command, with its arguments."""

from streaming.__main__ import main

main()
