"""Who speaks to Kafka? kafka-python, its settings and its versions."""
