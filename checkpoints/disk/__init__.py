"""What changes a file system? Every such call is here, with what makes it last, and the locks."""
