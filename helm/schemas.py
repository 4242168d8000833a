"""Makes schemas of Kubernetes that kubeconform reads from those of the package kubernetes-validate.

`schemas.py FROM TO`: the strict ones of every version; references that begin at a web server begin
at the file's own directory then.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(source: Path, target: Path) -> None:
    """Copy and mend.

    Raises:
        SystemExit: nothing was found.
    """
    versions = sorted(source.glob("kubernetes_validate/kubernetes-json-schema/*-strict"))
    if not versions:
        raise SystemExit(f"no schemas in {source}")
    for version in versions:
        directory = target / version.name.replace("-local", "")
        directory.mkdir(parents=True, exist_ok=True)
        for path in version.glob("*.json"):
            text = path.read_text("utf-8").replace("/api/_definitions.json#", "_definitions.json#")
            text = text.replace('"$id"', '"x-id"')
            (directory / path.name).write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
