"""How does a program ask thousands of times? Look-ups by kernels; twins are in `stores.query`."""
