"""What does a record look like as columns? Kernels of the DataFrame."""
