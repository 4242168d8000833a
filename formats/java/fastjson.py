"""The JSON that a broker writes to `config/`: fastjson leaves integer keys of a map unquoted.

    {"offsetTable":{"TopicTest@group":{0:12,1:7}}}

Everything else it writes is JSON as the standard has it.
"""

from __future__ import annotations

import json
import re
from typing import Any

# A string first, so that nothing inside one is taken for a key.
_STRING_OR_KEY = re.compile(r'"(?:[^"\\]++|\\.)*+"|([{,]\s*+)(-?[0-9]++)(?=\s*+:)', re.DOTALL)


def loads(text: str) -> Any:
    """Return what `text` says; keys are strings, the unquoted ones too.

    Raises:
        ValueError: broken text, such as a file that is only half written.
    """
    try:
        return json.loads(_STRING_OR_KEY.sub(_quote_key, text), strict=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _quote_key(found: re.Match[str]) -> str:
    before, key = found.groups()
    return found.group() if key is None else f'{before}"{key}"'
