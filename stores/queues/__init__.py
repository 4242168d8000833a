"""What does one queue answer? Offsets, times and pulls, as its broker answers them."""
