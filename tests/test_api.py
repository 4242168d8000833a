"""The public names of `reput`: few, typed, and loaded only when they are used."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import reput

ROOT = Path(__file__).parent.parent


@pytest.fixture
def store(golden, tmp_path):
    """Return the input of a store that a real broker wrote, without its own queues."""
    found = golden("5.3.3", "basic")
    return replace(found, path=found.copy_input(tmp_path / "store"))


def imported_by(statement: str) -> set[str]:
    script = f"import sys; {statement}; print(*sys.modules)"
    line = [sys.executable, "-c", script]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_name_is_there():
    """
    What `__all__` promises can be imported, and is listed by the package's docstring.
    """
    for name in reput.__all__:
        assert getattr(reput, name)
        assert name in reput.__doc__ or name == "__version__"


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="nothing_such"):
        reput.nothing_such  # noqa: B018


@pytest.mark.parametrize("statement", ["import reput", "from reput import MessageStore"])
def test_readers_load_neither_spark_nor_a_compiler(statement):
    """
    A script that asks for one message does not wait for a JVM's client or for LLVM.
    """
    assert not imported_by(statement) & {"pyspark", "py4j", "numba", "llvmlite", "kafka", "typer"}


@pytest.mark.parametrize("room", ["streaming/source", "streaming/cli/query"])
def test_readers_load_nothing_that_writes(room):
    """
    Code that only reads a store cannot change it: what does is not even loaded.
    """
    modules = [
        "reput." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / room).rglob("*.py")
    ]
    loaded = imported_by(f"import {', '.join(modules)}")

    writers = ("reput.checkpoints.disk", "reput.sinks.files", "reput.sinks.upkeep")
    assert set(modules) <= loaded
    assert not [name for name in loaded if name.startswith(writers)]


def test_rebuild_and_verify(store, tmp_path):
    """
    The two lines of a script: write an output, and compare it.
    """
    conf = store.conf
    batch = reput.rebuild(store.path, tmp_path / "out", broker_version="5.3.3", broker_conf=conf)
    report = reput.verify(store.path, tmp_path / "out", broker_version="5.3.3", broker_conf=conf)

    assert batch.messages > 0
    assert report.ok


def test_what_verify_finds(store, tmp_path):
    """
    A report that is not ok, where an entry is not what the log gives.
    """
    conf = store.conf
    reput.rebuild(store.path, tmp_path / "out", broker_version="5.3.3", broker_conf=conf)
    queue = next((tmp_path / "out" / "consumequeue").rglob("00000000000000000000"))
    with queue.open("r+b") as file:
        file.write(b"\x01")

    report = reput.verify(store.path, tmp_path / "out", broker_version="5.3.3", broker_conf=conf)

    assert not report.ok


def test_verify_of_a_brokers_own_files(golden, tmp_path):
    """
    Without an output the store's own queues and index are compared.
    """
    found = golden("5.3.3", "basic")
    own = replace(found, path=found.copy(tmp_path / "store"))
    report = reput.verify(own.path, broker_version="5.3.3", broker_conf=own.conf)
    assert report.ok

    queue = next((own.path / "consumequeue").rglob("00000000000000000000"))
    with queue.open("r+b") as file:
        file.write(b"\x01")
    report = reput.verify(own.path, broker_version="5.3.3", broker_conf=own.conf)
    assert not report.ok


def test_the_types_are_for_others_too(tmp_path):
    """
    A checker sees the signatures: `py.typed` is there, and nothing public is Any by accident.
    """
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "import reput\n"
        "store = reput.MessageStore.open(Path('store'))\n"
        "reveal_type(store)\n"
        "reveal_type(reput.verify(Path('s'), Path('o'), broker_version='5.3').ok)\n"
        "reput.rebuild('store', Path('o'), broker_version='5.3')\n"
    )
    line = [sys.executable, "-m", "mypy", "--config-file", "", "--strict", str(script)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)

    assert 'Revealed type is "reput.stores.query.message_store.MessageStore"' in done.stdout
    assert 'Revealed type is "bool"' in done.stdout or "builtins.bool" in done.stdout
    assert 'Argument 1 to "rebuild" has incompatible type "str"' in done.stdout
