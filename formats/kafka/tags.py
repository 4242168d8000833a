"""Which rows have one of the tags that are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.formats.kernels.compiled import making_kernel
from reput.formats.kernels.java import hash_utf8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reput.formats.kernels.memory import Bytes
    from reput.formats.rows.texts import Slices


@making_kernel
def match_tags(
    data: Bytes, tags: Slices, codes: NDArray[np.int64], texts: Slices, text_data: Bytes
) -> NDArray[np.bool_]:
    """Tell by row whether its tag is one of some tags: by its code first, then by its bytes.

    Args:
        data: what the rows' tags are slices of.
        tags: by row.
        codes: of the wanted tags, `String.hashCode`.
        texts: the wanted tags.
        text_data: what they are slices of.
    """
    found = np.zeros(len(tags.length), np.bool_)
    for row in range(len(found)):
        length = tags.length[row]
        if length == 0:
            continue
        code = np.int64(np.int32(hash_utf8(np.uint32(0), data, tags.at[row], length)))
        for i in range(len(codes)):
            if codes[i] == code and texts.length[i] == length:
                at, wanted = tags.at[row], texts.at[i]
                k = 0
                while k < length and data[at + k] == text_data[wanted + k]:
                    k += 1
                if k == length:
                    found[row] = True
                    break
    return found
