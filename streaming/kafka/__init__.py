"""How does Kafka keep up? A thread a store beside dispatch, at its own pace."""
