"""What does a job read? Where its logs end, a row a store: no records."""
