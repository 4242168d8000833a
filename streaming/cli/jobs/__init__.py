"""How do `run` and `rebuild` start and end a job? From their options to the exit code."""
