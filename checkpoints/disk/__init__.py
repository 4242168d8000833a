"""What changes an output's files? Every such call, what makes it last, and the locks."""
