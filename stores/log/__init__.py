"""What is in the commitlog's files? Records, the end of the log, what was cut from it."""
