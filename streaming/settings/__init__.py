"""What can you set? Stores, outputs, Kafka, and the values of options."""
