"""What do a store's bytes mean? RocketMQ's files and messages, and what each version changes."""
