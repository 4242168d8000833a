"""Is it still the same log, and how far may it be read? Cuts, flushes, frozen processes."""
