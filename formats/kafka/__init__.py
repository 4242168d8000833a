"""What does a message look like in Kafka? Record batches, encoded in one pass."""
