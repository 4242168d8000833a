"""How far are we, durably? Progress, the broker's checkpoint file, the abort marker, locks."""
