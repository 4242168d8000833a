"""What does a message become? Routes, rows, dead letters, what Kafka refuses."""
