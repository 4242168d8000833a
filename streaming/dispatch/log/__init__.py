"""What became of the log meanwhile? Cuts, gaps, flaws, how far to read, and a reader past them."""
