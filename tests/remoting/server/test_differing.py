"""A short run of the rig, and proof that it notices what differs."""

from __future__ import annotations

import pytest

from tests.remoting.server import differing


def test_both_servers_give_equal_bytes(capsys):
    assert differing.main(["--seeds", "1", "--connections", "6", "--requests", "120"]) == 0
    assert "0 different" in capsys.readouterr().out


@pytest.mark.parametrize("kept", [0, -1])
def test_what_differs_is_noticed(tmp_path, monkeypatch, kept):
    """
    A byte less of one side, or a connection that ends early.
    """
    talk, turns = differing.Peer._talk, []

    def shorten(peer):
        talk(peer)
        turns.append(peer)
        if len(turns) == 1:
            peer.came = peer.came[:kept]

    monkeypatch.setattr(differing.Peer, "_talk", shorten)
    found = differing.run(range(1), 2, 10, tmp_path)
    assert len(found.faults) == 1
