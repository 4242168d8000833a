from __future__ import annotations

import pytest

from streaming.session import build_session
from streaming.source import register


@pytest.fixture(scope="session")
def spark():
    """Return a session that knows the source; starting one takes longer than most tests."""
    session = build_session("tests", "local[2]")
    register(session)
    yield session
    session.stop()
