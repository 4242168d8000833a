"""Words that look like secrets, which no log line or page may show."""

from __future__ import annotations

import re

_SECRET = re.compile("secret|passw|token|credential|private|access_?key", re.IGNORECASE)


def looks_secret(text: str) -> bool:
    """Tell whether a setting's name, or a word of a command line, looks like a secret."""
    return _SECRET.search(text) is not None
