"""What a SparkApplication names as its main file: the command, with its arguments."""

import os
from pathlib import Path

from reput.streaming.cli.command import main

if place := os.environ.get("REPUT_PID_FILE"):
    # The entry point passes SIGTERM on to this process: its own child is the JVM.
    Path(place).write_text(str(os.getpid()))
main()
