"""The histories find faults that the code once had."""

from __future__ import annotations

import pytest

from tests.histories.faults import FAULTS, first_found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_an_old_fault_is_found(fault):
    """
    With fewer histories than CI draws from one seed.
    """
    assert first_found(fault, 1, 150) is not None
