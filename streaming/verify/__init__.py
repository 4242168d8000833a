"""Is an output right, and what if it is not? verify, handover, repair."""
