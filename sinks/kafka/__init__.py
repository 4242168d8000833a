"""How does a block reach Kafka? One transaction at a time, with the position after it."""
