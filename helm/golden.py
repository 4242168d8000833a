"""Renders the chart as the files in helm/golden have it.

`python -m helm.golden` writes them; a test compares. A change of a template is then seen as what
it changes in a cluster. The dashboard is left out: it has a test of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

HELM = Path(__file__).resolve().parent
CHART = HELM / "reput"
GOLDEN = HELM / "golden"
SPARK = (
    "mode=sparkApplication",
    "sparkApplication.serviceAccount=spark",
    "output.accessModes={ReadWriteMany}",
)
# File: values file and settings.
RENDERS = {
    "minimal": ("minimal", ()),
    "serve": ("minimal", ("serve.enabled=true", "serve.alone=true", "serve.register={ns:9876}")),
    "full": ("test", ("dashboard.enabled=false",)),
    "single-job": ("test", ("dashboard.enabled=false", "singleJob=true")),
    "sidecar": ("extras", ("mode=sidecar",)),
    "sparkapplication": ("extras", SPARK),
}


def helm() -> str:
    """Return the program, from `helm/tools.sh` or PATH.

    Raises:
        FileNotFoundError: it is in neither.
    """
    tools = Path(os.environ.get("REPUT_TOOLS", HELM.parent / ".venv" / "tools"))
    found = tools / "helm" if (tools / "helm").exists() else shutil.which("helm")
    if found is None:
        raise FileNotFoundError("helm is not here: run helm/tools.sh helm")
    return str(found)


def render(name: str) -> str:
    """Return one of `RENDERS`."""
    values, settings = RENDERS[name]
    command = [helm(), "template", "release", str(CHART), "--namespace", "rocketmq"]
    command += ["--values", str(CHART / "ci" / f"{values}-values.yaml")]
    command += [text for setting in settings for text in ("--set", setting)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return "\n".join(line.rstrip() for line in result.stdout.splitlines()) + "\n"


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for each in RENDERS:
        (GOLDEN / f"{each}.yaml").write_text(render(each), "utf-8")
