"""How do `run` and `rebuild` start and end a job? With these modules."""
