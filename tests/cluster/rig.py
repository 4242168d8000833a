"""What does a rig of real programs need? The programs, a free port, and a word when it fails."""

from __future__ import annotations

import os
import socket
from pathlib import Path

HELM = Path(__file__).resolve().parents[2] / "helm"
TOOLS = Path(os.environ.get("REPUT_TOOLS", HELM.parent / ".venv" / "tools"))
LOCALHOST = "127.0.0.1"


class CheckError(Exception):
    """Something is not as it has to be."""


def expect(holds: object, message: str) -> None:
    """Raise if something is not so.

    Raises:
        CheckError: with the message.
    """
    if not holds:
        raise CheckError(message)


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as listener:
        listener.bind((LOCALHOST, 0))
        return int(listener.getsockname()[1])
