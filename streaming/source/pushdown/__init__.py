"""What does a query want, and which bytes of the logs are enough for it? Reads with filters."""
