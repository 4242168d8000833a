"""What does a store hold? `reput query` answers from its files alone."""
