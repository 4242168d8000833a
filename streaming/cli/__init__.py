"""What can you ask for? The commands and their options."""
