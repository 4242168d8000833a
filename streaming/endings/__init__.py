"""How does a run end? Signals, errors, verdicts, exit codes."""
