"""Which pulls need no Python? Repeats those that were judged once, with other numbers, compiled."""
