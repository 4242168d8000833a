"""What does a store say of itself? Topic types, consumers' filters, files that change."""
