"""What happens to a range of the log? From blocks to queues, index and progress; no Spark."""
