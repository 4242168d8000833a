"""The histories find faults that the code once had."""

from __future__ import annotations

import pytest

from tests.histories.faults import FAULTS, first_found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_an_old_fault_is_found(fault):
    """
    Within 150 histories, about as many as CI draws from its two seeds.
    """
    assert first_found(fault, 1, 150) is not None
