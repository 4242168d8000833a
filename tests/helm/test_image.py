"""The Dockerfile, as far as it can be judged without building it: helm/image.sh does that."""

import re
import tomllib

from tests.helm.helm_tools import ROOT, find_tool, run

IMAGE = ROOT / "helm" / "image"


def test_hadolint_is_content():
    """
    The linter's rules for Dockerfiles, warnings as errors.
    """
    result = run(find_tool("hadolint"), str(ROOT / "Dockerfile"))

    assert result.returncode == 0, result.stdout


def test_every_dependency_is_pinned_by_digest():
    """
    What pyproject.toml asks for is in the lock file, and everything in it has digests.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = (IMAGE / "requirements.txt").read_text().replace("\\\n", "")
    locked = {line.split("==")[0] for line in lock.splitlines()}
    wanted = {re.match("[a-z0-9-]+", each)[0] for each in project["dependencies"]}

    assert wanted <= locked
    assert all("--hash=sha256:" in line for line in lock.splitlines())


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
