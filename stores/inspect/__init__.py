"""What stands in one file? Rows of any file of a store."""
