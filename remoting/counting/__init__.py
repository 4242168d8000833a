"""What is worth counting? What each server tells of itself, to metrics or to nobody."""
