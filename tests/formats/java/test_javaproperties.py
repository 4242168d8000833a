"""A broker.conf has the names and values that Java reads in it, whatever its bytes."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from reput.formats.errors import UsageError
from reput.formats.java.properties import load

DATA = Path(__file__).parents[1] / "data"
# Written by `python tests/formats/java/test_javaproperties.py`: bytes as ISO 8859-1, and what Java reads.
GOLDENS = DATA / "properties.json"
NASTY = (
    b"a = b\\\n   c\n", b"a:b\nc d\ne=:f\n", b"\xef\xbb\xbfa=1\nb=2\n", b"a=1\r\nb=2\rc=3\n",
    b"a=x\\\r\n  y\n", b"a=x\\\r  y\n", b"# \xd6\xd0\nbrokerName=\xd6\xd0\n", b"a=\\u6d88\\ud83d\\ude00\n",
    b"a=\\uZZ\n", b"a=\\\n", b"a=\\", b"\\ a\\=b\\:=c\n", b"  ! x\n #y\n k\n", b"a\\\nb=1\n", b"=v\n:w\n",
    b"a=1\na=2\n", b"a=b\\\\\nc=d\n", b"a\t=\tb\x0c c\n", b"a=b  \n", b"#c\\\na=1\n", b"a=1\\\n#b=2\n",
    b"a=1\\\n\nb=2\n", b"\\u0061=1\n", b'a=\\x\\q\\n\\t\\r\\f\\"\n', b"a=\x00b\n", b"a=\x1a\nb=1\n",
    b"a = = b\n", b"a:=b\n", b"\\#a=1\n", b"a=\xa0b\n", b"\xa0a=b\n", b"a\x0b=b\n", b"a=\\u00e9\\\n\\u00e8",
    b"\\\na=1\n", b"a=1\n\\\n\\\nb=2", b"   \\\n#x=1\n", b"a=\\u 061\n", b"a=\\uD83D\n", b"a=\\u+061\n",
    b"a=\\u0_61\n", b"a=\\U0061\n", b"\x0c\x0ca=b\n", b"a\\ b c\n", b"#\\\n!\\\nx=y", b"", b"\\", b"\\\r\n",
    b"\\\n\\\n!a\r", b"a=\\u004", "# \u6ce8\u91ca\nmaxIndexNum=7\n".encode("gbk"),
)  # fmt: skip
PIECES = (
    b"a", b"b", b" ", b"=", b":", b"\\", b"\n", b"\r", b"#", b"!", b"\t", b"\x0c", b"\\u0041", b"\xe9", b"\\\n",
    b"\\\r\n", b"\x85", b"\x1c", b"u",
)  # fmt: skip


def drawn(count, seed):
    """Files at random, of what readers tell apart."""
    draw = random.Random(seed)
    return [b"".join(draw.choices(PIECES, k=draw.randint(1, 14))) for _ in range(count)]


def read_by_java(files, directory):
    """What Java's own class reads in each, None where it refuses one."""
    paths = []
    for number, raw in enumerate(files):
        paths.append(directory / str(number))
        paths[-1].write_bytes(raw)
    command = ["java", DATA / "LoadProperties.java", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def read(raw):
    try:
        return load(raw)
    except UsageError:
        return None


def test_goldens():
    """
    What Java has read in files with each of its rules, and in hundreds at random.
    """
    goldens = json.loads(GOLDENS.read_text("utf-8"))
    files = {text.encode("iso8859-1"): expected for text, expected in goldens}

    assert set(NASTY) <= set(files)
    assert len(files) > 400
    for raw, expected in files.items():
        found = read(raw)
        # Halves of a character that stand together are one.
        assert json.loads(json.dumps(found)) == expected, raw


@pytest.mark.oracle
@pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK: run ./dev setup")
def test_java_reads_the_same(tmp_path):
    files = [*NASTY, *drawn(400, seed=random.randrange(1 << 30))]

    for raw, expected in zip(files, read_by_java(files, tmp_path), strict=True):
        assert read(raw) == expected, raw


def test_what_java_refuses_is_named():
    with pytest.raises(UsageError, match=r"\\u12 is not an escape: four hexadecimal digits follow"):
        load(b"a=1\nb=\\u12")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        every = [*NASTY, *drawn(500, seed=1)]
        pairs = zip(every, read_by_java(every, Path(made)), strict=True)
        lines = [json.dumps([raw.decode("iso8859-1"), values]) for raw, values in pairs]
        GOLDENS.write_text("[\n" + ",\n".join(lines) + "\n]\n")
