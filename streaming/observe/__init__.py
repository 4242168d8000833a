"""What can be seen of a job? Metrics, health and the kinds of errors."""
