"""Which messages does a consumer want? Tags, SQL92, bloom filters and consumerFilter.json."""
