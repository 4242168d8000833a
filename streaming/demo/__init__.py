"""What does it look like? The demonstration."""
