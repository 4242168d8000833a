"""What does Spark read? The data source `rocketmq`, batch and streaming."""
