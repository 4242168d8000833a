"""Which messages match? By key, id and time, waiting messages, transactions, consumers."""
