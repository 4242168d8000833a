"""A model of the page cache: what a power cut may leave of the files that `checkpoints.disk.changes` writes.

`Machine` wraps the functions of `checkpoints.disk.changes`, the system calls that make things last (fsync, msync,
syncfs) and the stores into maps, and keeps for everything below a directory what is on disk for
certain and what has been done since. `Machine.image` draws one of the states that a power cut can
leave of that; what it may draw is written down in README.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.checkpoints.disk import changes as disk
from reput.checkpoints.disk import locks
from reput.formats.kernels import consumequeue, indexfile
from reput.sinks.files import queue_files
from reput.sinks.files.mapped_file import MappedFile

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator

PAGE = 4096
SECTOR = 512
_ZEROS = bytes(PAGE)
_KEPT_VERSIONS = 16
_TORN = 0.15


class Killed(BaseException):
    """The process is gone: nothing that comes after it may change a file."""


class Boundary(NamedTuple):
    """A place between two changes: the operation that comes or was, and which of both."""

    operation: str
    moment: str


class File:
    """A file's bytes: by page, what is on disk and what stood there at any operation since."""

    def __init__(self) -> None:
        self.content = b""
        self.durable_size = 0
        self.sizes: list[int] = []
        self.durable: dict[int, bytes] = {}
        self.versions: dict[int, list[bytes]] = {}
        # It was made of nothing again; what stood in it is on disk until it is synced.
        self.is_truncated = False
        # Pages that the kernel takes for written back, though that has failed.
        self.forgotten: set[int] = set()

    def see(self, content: bytes) -> None:
        """Take note of what a reader sees now."""
        if content == self.content:
            return
        for number in range(-(-max(len(content), len(self.content)) // PAGE)):
            page = _page(content, number)
            if page != _page(self.content, number):
                seen = self.versions.setdefault(number, [])
                seen.append(page)
                self.forgotten.discard(number)
                if len(seen) > _KEPT_VERSIONS:
                    del seen[len(seen) // 2]
        if len(content) != len(self.content):
            self.sizes.append(len(content))
        self.content = content

    def truncate(self) -> None:
        """Take note that it was made of nothing again."""
        if self.content:
            self.see(b"")
            self.is_truncated = True

    def sync(self, start: int = 0, end: int | None = None) -> None:
        """Put these bytes on disk, and the size."""
        self.durable_size = len(self.content)
        self.sizes = []
        if self.is_truncated:
            self.durable = {}
            self.is_truncated = False
        stop = len(self.content) if end is None else end
        for number in list(self.versions):
            if start <= number * PAGE < stop and number not in self.forgotten:
                self.durable[number] = _page(self.content, number)
                del self.versions[number]

    def forget(self, start: int, end: int) -> None:
        """Fail to have these bytes on disk: no later sync tries again, unless they change."""
        self.forgotten.update(n for n in self.versions if start <= n * PAGE < end)


def _page(content: bytes, number: int) -> bytes:
    return content[number * PAGE : (number + 1) * PAGE].ljust(PAGE, b"\0")


class Directory:
    """A directory; the names in it are kept by the tree, once as seen and once as on disk."""


Node = File | Directory
Tree = dict[Directory, dict[str, Node]]


class Change(NamedTuple):
    """A name that comes to mean something else: `node`, or nothing where it meant `gone`."""

    directory: Directory
    name: str
    node: Node | None
    gone: Node | None


@dataclass
class Image:
    """What was found after a power cut, by path below the machine's root."""

    directories: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)

    def write(self, root: Path) -> None:
        """Make it stand below `root`."""
        for name in self.directories:
            (root / name).mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            with (root / name).open("wb", buffering=0) as file:
                file.truncate(len(data))
                for at in range(0, len(data), PAGE):
                    page = data[at : at + PAGE]
                    # What was never written has no block.
                    if page.strip(b"\0"):
                        file.seek(at)
                        file.write(page)


class Manner(NamedTuple):
    """How likely it is that what was not synced is there all the same: names, bytes, sizes."""

    names: float
    pages: float
    sizes: float


_MANNERS = (
    (Manner(0.0, 0.0, 0.0), 2),
    (Manner(1.0, 1.0, 1.0), 1),
    (Manner(1.0, 0.0, 0.0), 2),
    (Manner(1.0, 0.0, 1.0), 1),
    (Manner(1.0, 0.5, 1.0), 3),
    (Manner(0.5, 1.0, 1.0), 2),
    (Manner(0.5, 0.5, 0.5), 3),
    (Manner(0.9, 0.9, 0.9), 2),
    (Manner(0.1, 0.1, 0.5), 2),
)


@dataclass(frozen=True)
class Rules:
    """What the modelled machine does.

    Attributes:
        loses_sizes: a new file may be there with its name and without its size.
        orders_names: names last in the order in which they were given, as in a journal.
        ignores: operations that are done and make nothing last: faults, put in on purpose.
    """

    loses_sizes: bool = True
    orders_names: bool = False
    ignores: frozenset[str] = frozenset()


class Machine:
    """One machine's memory and disk, as far as one directory of it goes."""

    def __init__(self, root: Path, rules: Rules) -> None:
        """Take what stands below `root` for being on disk; links are not followed."""
        self.root = root
        self.rules = rules
        self.operations = 0
        self.kill_at = -1
        self.is_dead = False
        self.on_boundary: Callable[[Boundary], None] = lambda _boundary: None
        self._top = Directory()
        self._seen: Tree = {self._top: {}}
        self._durable: Tree = {}
        self._pending: list[list[Change]] = []
        self._maps: dict[int, tuple[File, int]] = {}
        self._undo: list[tuple[Any, str, Any]] = []
        self._load(root, self._top)
        self._durable = {node: dict(entries) for node, entries in self._seen.items()}

    def _load(self, path: Path, directory: Directory) -> None:
        for entry in os.scandir(path):
            node: Node
            if entry.is_symlink():
                continue
            if entry.is_dir():
                node = Directory()
                self._seen[node] = {}
                self._load(Path(entry.path), node)
            else:
                node = File()
                node.see(Path(entry.path).read_bytes())
                node.sync()
            self._seen[directory][entry.name] = node

    # What can be asked.

    def image(self, pick: random.Random) -> Image:
        """Draw one of the states that a power cut can leave now."""
        manner = pick.choices([m for m, _ in _MANNERS], [w for _, w in _MANNERS])[0]
        tree = {node: dict(entries) for node, entries in self._durable.items()}
        kept = [pick.random() < manner.names for _ in self._pending]
        if self.rules.orders_names:
            kept = sorted(kept, reverse=True)
        for changes, is_kept in zip(self._pending, kept, strict=True):
            if is_kept:
                _apply(tree, changes)
        image = Image()
        self._draw(self._top, "", tree, image, manner, pick)
        return image

    def _draw(
        self,
        directory: Directory,
        prefix: str,
        tree: Tree,
        image: Image,
        manner: Manner,
        pick: random.Random,
    ) -> None:
        for name, node in tree.get(directory, {}).items():
            path = prefix + name
            if isinstance(node, Directory):
                image.directories.append(path)
                self._draw(node, path + "/", tree, image, manner, pick)
            else:
                image.files[path] = _content(node, manner, pick)

    def seen(self) -> Image:
        """Return what a process sees now, for comparing the model with the real files."""
        self.see_maps()
        image = Image()
        self._collect(self._top, "", image)
        return image

    def _collect(self, directory: Directory, prefix: str, image: Image) -> None:
        for name, node in self._seen[directory].items():
            if isinstance(node, Directory):
                image.directories.append(prefix + name)
                self._collect(node, prefix + name + "/", image)
            else:
                image.files[prefix + name] = node.content

    def is_durable(self, path: Path) -> bool:
        """Tell whether a file's name is on disk for certain."""
        directory: Node | None = self._top
        *above, name = path.relative_to(self.root).parts
        for part in above:
            directory = self._durable.get(directory, {}).get(part)  # type: ignore[arg-type]
            if not isinstance(directory, Directory):
                return False
        return isinstance(directory, Directory) and name in self._durable.get(directory, {})

    # What is done.

    def _node(self, path: Path) -> Node | None:
        node: Node | None = self._top
        for part in path.relative_to(self.root).parts:
            if not isinstance(node, Directory):
                return None
            node = self._seen[node].get(part)
        return node

    def _directory(self, path: Path) -> Directory:
        node = self._node(path)
        assert isinstance(node, Directory), path
        return node

    def _is_ours(self, path: Path) -> bool:
        return path.is_relative_to(self.root)

    def _change(self, *changes: Change) -> None:
        _apply(self._seen, changes)
        self._pending.append(list(changes))

    def _see_file(
        self, path: Path, *, is_made_anew: bool = False, keeps_size: bool = False
    ) -> None:
        """Take note of a file that was written through a descriptor."""
        node = self._node(path)
        if node is None:
            node = File()
            self._change(Change(self._directory(path.parent), path.name, node, None))
        assert isinstance(node, File), path
        if is_made_anew:
            node.truncate()
        node.see(path.read_bytes())
        if keeps_size:
            # What was done to it comes before its name in any journal.
            node.sync(0, 0)

    def _sync_names(self, directory: Directory) -> None:
        still = []
        for changes in self._pending:
            if any(change.directory is directory for change in changes):
                for change in changes:
                    self._durable.setdefault(change.directory, {})
                _apply(self._durable, changes)
            else:
                still.append(changes)
        self._pending = still

    def _sync_all(self) -> None:
        for changes in self._pending:
            _apply(self._durable, changes)
        self._pending = []
        for entries in self._seen.values():
            for node in entries.values():
                if isinstance(node, File):
                    node.sync()

    def see_maps(self) -> None:
        """Take note of what was stored into maps."""
        for address, (node, size) in self._maps.items():
            self._see_map(address, node, size)

    @staticmethod
    def _see_map(address: int, node: File, size: int) -> None:
        content = ctypes.string_at(address, size)
        if content != node.content:
            node.see(content)

    def _boundary(self, operation: str, moment: str) -> None:
        if self.is_dead:
            raise Killed
        self.operations += 1
        if self.operations == self.kill_at:
            self.see_maps()
            self.is_dead = True
            raise Killed
        self.on_boundary(Boundary(operation, moment))

    def revive(self) -> None:
        """Begin another process: what the last one had mapped is unmapped."""
        for address, (_, size) in self._maps.items():
            disk._libc.munmap(address, size)
        self._maps = {}
        self.is_dead = False
        self.kill_at = -1

    # How it gets to know.

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Stand between the code and the files for a while."""
        for name in _BEHIND:
            self._wrap(disk, name, getattr(self, f"_behind_{name}"))
        self._replace(disk, "_libc", _Calls(disk._libc, self))
        # Queues are flushed in turn: what may be lost does not depend on it, and runs are repeatable.
        self._replace(queue_files, "_FLUSHERS", 1 << 30)
        self._replace(os, "fsync", self._fsync(os.fsync))
        self._wrap(MappedFile, "write", self._behind_write, is_before=False)
        for owner, name in (
            (consumequeue, "put"),
            (indexfile, "insert"),
            (indexfile, "restore_slots"),
        ):
            self._wrap(owner, name, self._behind_kernel, is_before=False)
        self._wrap(locks.FileLock, "acquire", self._behind_lock)
        self._wrap(locks.FileLock, "write", self._behind_lock)
        try:
            yield
        finally:
            for owner, name, inner in reversed(self._undo):
                setattr(owner, name, inner)
            self._undo = []

    def _replace(self, owner: Any, name: str, by: Any) -> None:
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, by)

    def _wrap(
        self, owner: Any, name: str, behind: Callable[..., None], *, is_before: bool = True
    ) -> None:
        inner = getattr(owner, name)

        @wraps(inner)
        def wrapped(*args: Any, **options: Any) -> Any:
            if is_before and name != "unmap":
                self.see_maps()
                self._boundary(name, "before")
            if name == "unmap":
                self._behind_unmap(*args)
                return inner(*args)
            result = inner(*args, **options)
            behind(result, *args)
            try:
                self._boundary(name, "after")
            except Killed:
                if name == "acquire":
                    # Its lock ends with a process; this one lives on.
                    args[0].release()
                raise
            return result

        self._replace(owner, name, wrapped)

    def _behind_make_directories(self, made: list[Path], path: Path) -> None:
        for parent in (*reversed(path.parents), path):
            if self._is_ours(parent) and parent != self.root and self._node(parent) is None:
                node = Directory()
                self._seen[node] = {}
                self._change(Change(self._directory(parent.parent), parent.name, node, None))

    def _behind_make_file(self, _: None, path: Path, _size: int) -> None:
        if self._is_ours(path):
            self._see_file(path, is_made_anew=True, keeps_size=not self.rules.loses_sizes)

    def _behind_write_file(self, _: None, path: Path, _data: bytes) -> None:
        if self._is_ours(path):
            # Seen already, unless it was never synced.
            self._see_file(path)

    def _behind_write_pieces(self, _: None, path: Path, _pieces: Iterable[bytes]) -> None:
        self._behind_write_file(None, path, b"")

    def _behind_clear(self, _: int, path: Path, _start: int) -> None:
        if self._is_ours(path):
            self._see_file(path)

    def _behind_sync_file_system(self, _: None, _path: Path) -> None:
        pass

    def _behind_rename(self, _: None, path: Path, target: Path) -> None:
        node = self._node(path)
        old = self._directory(path.parent)
        new = self._directory(target.parent)
        assert node is not None, path
        self._change(Change(old, path.name, None, node), Change(new, target.name, node, None))

    def _behind_remove_file(self, _: None, path: Path) -> None:
        self._change(Change(self._directory(path.parent), path.name, None, self._node(path)))

    def _behind_remove_directory(self, _: None, path: Path) -> None:
        self._change(Change(self._directory(path.parent), path.name, None, self._node(path)))

    def _behind_sync_directory(self, _: None, _path: Path) -> None:
        pass

    def _behind_map_file(self, address: int, path: Path, size: int) -> None:
        node = self._node(path)
        assert isinstance(node, File), path
        self._maps[address] = node, size

    def _behind_unmap(self, address: int, size: int) -> None:
        known = self._maps.pop(address, None)
        if known is not None:
            self._see_map(address, known[0], size)

    def _behind_populate(self, *_: Any) -> None:
        pass

    def _behind_sync_memory(self, *_: Any) -> None:
        pass

    def _behind_write(self, _: None, file: MappedFile, *_data: Any) -> None:
        node, size = self._maps[file.address]
        self._see_map(file.address, node, size)

    def _behind_kernel(self, *_: Any) -> None:
        self.see_maps()

    def _behind_lock(self, result: bool | None, lock: locks.FileLock, *_: Any) -> None:
        if result is not False and self._is_ours(lock.path):
            self._see_file(lock.path)

    # The calls that make things last.

    def _fsync(self, inner: Callable[[int], None]) -> Callable[[int], None]:
        def fsync(descriptor: int) -> None:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            if not self._is_ours(path):
                inner(descriptor)
                return
            is_directory = path.is_dir()
            if not is_directory:
                self._see_file(path, is_made_anew=True)
                self._boundary("write_file", "within")
            try:
                inner(descriptor)
            except OSError:
                self._forget(path)
                raise
            name = "sync_directory" if is_directory else "write_file"
            if name in self.rules.ignores:
                return
            node = self._node(path)
            if isinstance(node, Directory):
                self._sync_names(node)
            elif isinstance(node, File):
                node.sync()

        return fsync

    def _forget(self, path: Path) -> None:
        node = self._node(path)
        if isinstance(node, File):
            node.forget(0, len(node.content))

    def msync(self, address: int, length: int, result: int) -> None:
        """Take note of a part of a map that is on disk."""
        for base, (node, size) in self._maps.items():
            if base <= address < base + size:
                self._see_map(base, node, size)
                start = address - base
                if result != 0:
                    node.forget(start, start + length)
                elif "sync_memory" not in self.rules.ignores:
                    node.sync(start, start + length)

    def syncfs(self, result: int) -> None:
        """Take note that everything is on disk."""
        self.see_maps()
        if result != 0:
            for entries in self._seen.values():
                for node in entries.values():
                    if isinstance(node, File):
                        node.forget(0, len(node.content))
        elif "sync_file_system" not in self.rules.ignores:
            self._sync_all()


_BEHIND = (
    "make_directories",
    "make_file",
    "write_file",
    "write_pieces",
    "clear",
    "sync_file_system",
    "rename",
    "remove_file",
    "remove_directory",
    "sync_directory",
    "map_file",
    "unmap",
    "populate",
    "sync_memory",
)


class _Calls:
    """The C library, with a look at the two calls that make things last."""

    def __init__(self, inner: ctypes.CDLL, machine: Machine) -> None:
        self._inner = inner
        self._machine = machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def msync(self, address: int, length: int, flags: int) -> int:
        result = int(self._inner.msync(address, length, flags))
        self._machine.msync(address, length, result)
        return result

    def syncfs(self, descriptor: int) -> int:
        result = int(self._inner.syncfs(descriptor))
        self._machine.syncfs(result)
        return result


def _apply(tree: Tree, changes: list[Change] | tuple[Change, ...]) -> None:
    for change in changes:
        entries = tree.setdefault(change.directory, {})
        if change.node is not None:
            entries[change.name] = change.node
            if isinstance(change.node, Directory):
                tree.setdefault(change.node, {})
        elif entries.get(change.name) is change.gone:
            entries.pop(change.name, None)


def _content(file: File, manner: Manner, pick: random.Random) -> bytes:
    size = file.durable_size
    if file.sizes:
        size = file.sizes[-1] if pick.random() < manner.sizes else pick.choice([size, *file.sizes])
    pages = []
    for number in range(-(-size // PAGE)):
        durable = file.durable.get(number, _ZEROS)
        versions = file.versions.get(number)
        pages.append(_draw_page(durable, versions, manner, pick) if versions else durable)
    return b"".join(pages)[:size]


def _draw_page(durable: bytes, versions: list[bytes], manner: Manner, pick: random.Random) -> bytes:
    if pick.random() < _TORN and manner.pages > 0.0:
        states = [durable, *versions]
        return b"".join(pick.choice(states)[at : at + SECTOR] for at in range(0, PAGE, SECTOR))
    if pick.random() >= manner.pages:
        return durable
    return versions[-1] if pick.random() < 0.5 else pick.choice(versions)
