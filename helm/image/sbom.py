"""Prints what the image is made of, as a CycloneDX document: Debian, Python and Java packages.

Everything is read from the image itself, so the document says what is there and not what was
asked for. It has no time and no number of its own: the same image gives the same document.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

_DEBIAN_FIELDS = "${binary:Package}\t${Version}\t${Architecture}\t${source:Package}\n"
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[^/]*)\.jar")


def component(kind: str, name: str, version: str, purl: str, **more: Any) -> dict[str, Any]:
    """Return one entry of the list."""
    return {"type": kind, "name": name, "version": version, "purl": purl, "bom-ref": purl, **more}


def debian() -> list[dict[str, Any]]:
    """Return the packages that dpkg knows."""
    command = ["dpkg-query", "--show", f"--showformat={_DEBIAN_FIELDS}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = []
    for line in lines.splitlines():
        package, version, architecture, _ = line.split("\t")
        name = package.partition(":")[0]
        purl = f"pkg:deb/debian/{name}@{version}?arch={architecture}"
        found.append(component("library", name, version, purl))
    return found


def python() -> list[dict[str, Any]]:
    """Return the distributions of this interpreter's environment."""
    found = []
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        version = distribution.version
        purl = f"pkg:pypi/{name}@{version}"
        text = distribution.metadata.json.get("license_expression")
        more = {"licenses": [{"expression": text}]} if text else {}
        found.append(component("library", name, version, purl, **more))
    return found


def java(jars: Path) -> list[dict[str, Any]]:
    """Return Spark's jars, by the names of their files and with their digests."""
    found = []
    for path in jars.glob("*.jar"):
        match = _JAR.fullmatch(path.name)
        name, version = (match["name"], match["version"]) if match else (path.stem, "")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        purl = f"pkg:generic/{name}@{version}?checksum=sha256:{digest}"
        hashes = [{"alg": "SHA-256", "content": digest}]
        found.append(component("library", name, version, purl, hashes=hashes))
    return found


def document() -> dict[str, Any]:
    """Return the whole document."""
    spark = importlib.metadata.distribution("pyspark").locate_file("pyspark/jars")
    everything = {each["purl"]: each for each in [*debian(), *python(), *java(Path(str(spark)))]}
    version = importlib.metadata.version("reput")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": "reput", "version": version}},
        "components": [everything[purl] for purl in sorted(everything)],
    }


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=1)
    sys.stdout.write("\n")
