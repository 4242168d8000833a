"""What became of the log meanwhile? Cuts, gaps, flaws, and up to where it may be dispatched."""
