"""What else happens to an output's files? They are rolled back, repaired, or expire."""
