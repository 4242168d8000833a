"""The Dockerfile, as far as it can be judged without building it: helm/image.sh does that."""

import re
import tomllib
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helm.helm_tools import ROOT, find_tool, run

IMAGE = ROOT / "helm" / "image"
# The image's Python; what runs the tests may be another one.
ENVIRONMENT = {
    "python_version": "3.11",
    "python_full_version": "3.11.2",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "extra": "",
}


def test_hadolint_is_content():
    """
    The linter's rules for Dockerfiles, warnings as errors.
    """
    result = run(find_tool("hadolint"), str(ROOT / "Dockerfile"))

    assert result.returncode == 0, result.stdout


def locked_versions():
    lock = (IMAGE / "requirements.txt").read_text().replace("\\\n", "")
    assert all("--hash=sha256:" in line for line in lock.splitlines())
    return dict(line.split()[0].split("==") for line in lock.splitlines())


def wanted_versions(needed, locked):
    """
    Return what each distribution has to be, by name: of the needed, and of what they need; and
    whether that is all. What a distribution needs is asked of the installed one, which tells of the
    locked one only if both are one release: an index has newer ones on any day.
    """
    found, is_all = {}, True
    waiting = [Requirement(each) for each in needed]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        is_new = name not in found
        found.setdefault(name, []).append(requirement.specifier)
        if not is_new:
            continue
        if locked.get(name, metadata.version(name)) != metadata.version(name):
            is_all = False
            continue
        for text in metadata.requires(name) or ():
            more = Requirement(text)
            if more.marker is None or more.marker.evaluate(ENVIRONMENT):
                waiting.append(more)
    return found, is_all


def test_the_lock_file_fits_the_project():
    """
    A dependency that is added, raised or dropped is so in the image as well; all with digests.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = locked_versions()
    wanted, is_all = wanted_versions(project["dependencies"], locked)

    assert set(wanted) <= set(locked), "run helm/image/lock.sh"
    assert not is_all or set(wanted) == set(locked), "run helm/image/lock.sh"
    wrong = {
        name: (locked[name], str(specifier))
        for name, specifiers in wanted.items()
        for specifier in specifiers
        if not specifier.contains(locked[name], prereleases=True)
    }
    assert wrong == {}, "run helm/image/lock.sh"


def test_a_stale_lock_file_is_seen():
    """
    The check above can fail: what is no longer needed, and what is new.
    """
    locked = locked_versions()
    of_installed = {"rich": metadata.version("rich"), "pygments": metadata.version("pygments")}
    wanted, _ = wanted_versions(["rich>=14"], locked | of_installed)

    assert {"rich", "pygments"} <= set(wanted) < set(locked)
    assert not wanted["rich"][0].contains("13.0")


def test_a_newer_release_on_the_index_says_nothing_of_the_locked_one():
    """
    A distribution that is installed in another release is not asked what it needs.
    """
    wanted, is_all = wanted_versions(["rich>=14"], {"rich": "14.0.0.dev0"})

    assert set(wanted) == {"rich"}
    assert not is_all


def test_the_context_is_what_is_copied():
    """
    What .dockerignore lets through and the Dockerfile takes are the same.
    """
    allowed = set(re.findall("^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    text = (ROOT / "Dockerfile").read_text()
    copied = set(
        re.findall(r"(?<=\s)(?:helm/image|[a-z]+(?= source/)|[\w.]+(?:\.toml|\.md)|LICENSE)", text)
    )

    assert copied == allowed
