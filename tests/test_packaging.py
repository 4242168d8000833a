"""What `pip install` puts into an environment: `reput/`, and nothing beside it.

`./dev setup` installs a checkout as `pip install -e` does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
IGNORED = shutil.ignore_patterns("__pycache__")
FOLDERS = ("formats", "remoting", "sinks", "checkpoints", "stores", "streaming")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Copy what is installed of a checkout, without its caches."""
    source = tmp_path_factory.mktemp("checkout") / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("reput", *FOLDERS):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=IGNORED)
    return source


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    """Build the wheel as pip does."""
    work = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", work, source]
    subprocess.run(build, check=True, capture_output=True)
    return next(work.glob("*.whl"))


def test_one_import_name(wheel):
    """
    `streaming` and the other folders' names belong to others, on Spark clusters above all.
    """
    with zipfile.ZipFile(wheel) as archive:
        roots = {name.partition("/")[0] for name in archive.namelist()}
        (top_level,) = (n for n in archive.namelist() if n.endswith("/top_level.txt"))
        assert archive.read(top_level).decode().split() == ["reput"]

    assert {root for root in roots if not root.endswith(".dist-info")} == {"reput"}


def test_every_module_is_in_it(wheel):
    """
    And what modules read beside themselves: the grammar, the workers' interpreter, `py.typed`.
    """
    wanted = {
        f"reput/{path.relative_to(ROOT)}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    wanted |= {"reput/__init__.py", "reput/__main__.py", "reput/py.typed"}

    with zipfile.ZipFile(wheel) as archive:
        packed = {n for n in archive.namelist() if n.startswith("reput/")}
    assert packed == wanted


def test_it_works_from_site_packages(wheel, tmp_path):
    """
    Unpacked far from the checkout, the command and the public names are there.
    """
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def run(*words: str) -> str:
        line = [sys.executable, *words]
        done = subprocess.run(
            line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    script = (
        "import reput, reput.formats.filters.sql92 as s; s.parse('a = 1'); print(reput.__file__)"
    )
    assert run("-c", script) == str(tmp_path / "site" / "reput" / "__init__.py")
    assert "query" in run("-m", "reput", "--help")


@pytest.fixture(scope="module")
def editable(source, tmp_path_factory):
    """Return the Python of an environment with an editable install and our dependencies."""
    made = tmp_path_factory.mktemp("environment")
    venv.create(made, symlinks=True)
    python = made / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    install = [*pip, "install", "-q", "--no-deps", "-e", source]
    subprocess.run(install, check=True, capture_output=True)
    (site,) = made.glob("lib/python*/site-packages")
    # Only its packages: a path out of such a file brings no other editable install along.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


@pytest.mark.parametrize("way", ["import", "script", "module", "command"])
def test_an_editable_install_works_beside_a_directory_of_its_name(editable, source, tmp_path, way):
    """
    Outputs are called `reput` in the documentation, and Python takes any directory for a package.
    """
    (tmp_path / "reput" / "consumequeue").mkdir(parents=True)
    names = "from reput import MessageStore, build_session; import reput; print(reput.__file__)"
    script = tmp_path / "ask.py"
    script.write_text(names)
    rebuild = ["rebuild", "--store", "absent", "--output", "reput", "--broker-version", "5.5"]
    line = {
        "import": [editable, "-c", names],
        "script": [editable, script],
        "module": [editable, "-m", "reput", *rebuild],
        "command": [editable.with_name("reput"), *rebuild],
    }[way]
    imports = way in {"import", "script"}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    done = subprocess.run(
        line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    if imports:
        assert (done.stdout.strip(), done.stderr) == (str(source / "reput" / "__init__.py"), "")
    else:
        assert done.returncode == 3
        assert "absent: no such directory" in done.stderr


def test_the_links_are_the_folders():
    """
    A checkout has the same names as an installation, in every tool.
    """
    links = {
        path.name: str(path.readlink()) for path in (ROOT / "reput").iterdir() if path.is_symlink()
    }

    assert links == {name: f"../{name}" for name in FOLDERS}
