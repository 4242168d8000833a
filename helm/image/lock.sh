#!/usr/bin/env bash
# lock.sh [--upgrade]: has requirements.txt fit pyproject.toml again, with digests, for the image's
# Python. Versions that fit stay what they are; --upgrade takes the newest. Needs a package index.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-.venv/bin/python}" -m pip install -q --target "$work" 'uv>=0.9,<1'
"$work/bin/uv" pip compile pyproject.toml --quiet --generate-hashes --python-version 3.11 \
    --no-annotate --no-header --output-file helm/image/requirements.txt "$@" >/dev/null
