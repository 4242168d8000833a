"""Is the log still the one that was sent? Cuts, expired files, and where both part."""
