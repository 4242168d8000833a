"""What does a record look like as columns? Kernels behind the DataFrame."""
