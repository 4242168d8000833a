"""What a fuzz target is: it makes batches of cases from a random source, and checks them."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random


class WrongError(AssertionError):
    """A promise that does not hold: what was expected, what was found."""


class Target(Protocol):
    """One thing under test.

    A batch is what one seed makes. `make` draws it and `check` runs it, so that a batch that
    killed its process is made again without running it.
    """

    name: str

    def make(self, random: Random) -> Any:
        """Draw a batch of cases."""

    def check(self, batch: Any) -> list[str]:
        """Run a batch and return a verdict for each of its cases; raise what must not happen."""

    def keep(self, batch: Any, directory: Path) -> None:
        """Write a batch down as files."""


class Tree(NamedTuple):
    """Files by their path, and what to run over them; a path that ends with / is a directory."""

    files: dict[str, bytes]
    options: dict[str, Any]

    def write(self, root: Path) -> None:
        """Write the files."""
        made = set()
        for path, raw in self.files.items():
            target = root / path
            # By text: a mutated name may lead through what is a file.
            if target.parent not in made:
                target.parent.mkdir(parents=True, exist_ok=True)
                made.add(target.parent)
            if path.endswith("/"):
                target.mkdir(exist_ok=True)
            else:
                target.write_bytes(raw)


def keep_tree(batch: Tree, directory: Path) -> None:
    """Write a batch of files down, its options beside them."""
    batch.write(directory / "files")
    text = json.dumps(batch.options, indent=1, default=str)
    (directory / "options.json").write_text(text, "utf-8")


def same(found: object, wanted: object, what: str) -> None:
    """Check that two ways to the same thing agree.

    Raises:
        WrongError: they do not.
    """
    if found != wanted:
        raise WrongError(f"{what}: {found!r:.500}, expected {wanted!r:.500}")


def named(run: Callable[..., str], *errors: type[BaseException]) -> Callable[..., str]:
    """Return what runs `run` and turns the errors that it may raise into a verdict."""

    @functools.wraps(run)
    def outcome(*arguments: Any, **options: Any) -> str:
        try:
            return run(*arguments, **options)
        except errors as error:
            return type(error).__name__

    return outcome
