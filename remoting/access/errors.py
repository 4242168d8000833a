"""What is wrong with what an operator gave to guard a store."""

from __future__ import annotations


class AccessError(ValueError):
    """A file of accounts, a certificate or a setting cannot be used; says which, and a remedy."""
