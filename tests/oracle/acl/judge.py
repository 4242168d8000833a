"""Random files of accounts and random requests, judged by the real ACL and by ours.

    python -m tests.oracle.acl.judge --homes 100 --requests 50 --seed 1

Compared are: whether a broker starts with the files; for each request, whether it is allowed, and
the remark. Requests that Java signs have fields and bodies of any kind; some are changed afterwards.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from reput.remoting.access.check import Access
from reput.remoting.access.errors import AccessError
from reput.remoting.names.release import RELEASE_4_9, RELEASE_5_5
from reput.remoting.wire.codes import RequestCode
from reput.remoting.wire.command import Command

HERE = Path(__file__).resolve().parent
VERSIONS = {"4.9.8": RELEASE_4_9, "5.1.4": RELEASE_5_5}
KEYS = ("reader-one", "reader-two", "reader-three", "12345678", "näme-längr")
SECRETS = ("secret-one", "12345678", "0012345678", "s€cret-two")
# What YAML makes something else of, written without quotes, and what a broker of 4.9 makes of it.
PLAIN_SECRETS = {
    "12345678": "12345678",
    "0x12345678": "305419896",
    "012345670": "2739128",
    "0012345678": "0012345678",
    "12_345_678": "12345678",
    "+12345678": "12345678",
    "12:34:56:18": "2717778",
    "0b10101010": "170",
    "true": "true",
    "1234567o": "1234567o",
    "=secret-one": "=secret-one",
    "12345678L": "12345678L",
    "0o12345670": "0o12345670",
}
PLAIN_SWITCHES = ("yes", "no", "on", "Off", "true", "TRUE", "False", "null", "~", "maybe", "1", "0")
TOPICS, GROUPS = ("orders", "audit", "RMQ_SYS_TRACE_TOPIC", "%RETRY%billing"), ("billing", "stock")
PERMS = ("PUB", "SUB", "PUB|SUB", "SUB|PUB", "DENY", " SUB ", "ANY", "pub")
WHITE = (
    *("", "*", "10.0.0.1", "10.0.0.*", "10.0.1-3.*", "10.0.*.*", "10.0.0.1,10.0.0.2"),
    *("10.0.0.{1,3}", "fe80::1", "fe80::*", "fe80::1:1-200", "fe80::1-20:*", "fe80::{1,2}"),
    *("10.0.0", "10.0.0.{1", "10.0.*", "10.0.0.5-1", "10.0.0.300", "fe80::*:1", "10.1-2.3.4"),
)
PEERS = ("10.0.0.1", "10.0.0.2", "10.0.2.7", "10.1.3.4", "10.2.9.9", "192.168.0.1")
PEERS6 = ("fe80:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:1:100", "fe80:0:0:0:0:0:10:7", "2001:0:0:0:0:0:0:5")
CODES = (
    *(10, 310, 320, 36, 11, 361, 12, 34, 35, 38, 15, 17, 25, 215, 200, 207, 33, 105),
    *(11, 11, 34, 38, 15),
)


PLAIN = "@@"


class Peer(NamedTuple):
    """A connection, as far as an ACL looks at it."""

    peer: str


class Case(NamedTuple):
    """A line for Java, and what we say."""

    question: str
    ours: str


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def said_fields(fields: dict[str, str] | None) -> str:
    if fields is None:
        return "-"
    pairs = (f"{coded(name)}:{coded(value)}" for name, value in fields.items())
    return ",".join(pairs) or "*"


def said(request: Command) -> str:
    fields, body = said_fields(request.fields), bytes(request.body).hex()
    return f"{int(request.code)}\t{request.version}\t{fields}\t{body}"


class Maker:
    """Makes files and requests from a seed."""

    def __init__(self, seed: int, *, has_flag: bool) -> None:
        self.random = random.Random(seed)
        self.has_flag = has_flag

    def document(self) -> dict[str, Any]:
        pick, choose = self.random.random, self.random.choice
        made: dict[str, Any] = {}
        if pick() < 0.3:
            # Most whole files; some that a broker refuses.
            made["globalWhiteRemoteAddresses"] = [self.white() for _ in range(2)]
        if pick() < 0.95:
            made["accounts"] = [self.account() for _ in range(self.random.randint(1, 3))]
        if pick() < 0.03:
            made["nobody"] = choose((1, "x"))
        return made

    def secret(self, key: str | None) -> str:
        """Return a secret; mostly the same for a key, so that signatures are right."""
        is_known = key in KEYS and self.random.random() < 0.9
        return SECRETS[KEYS.index(key) % len(SECRETS)] if is_known else self.random.choice(SECRETS)

    def white(self) -> str:
        return self.random.choice(WHITE[: 13 if self.random.random() < 0.9 else None])

    def account(self) -> dict[str, Any]:
        pick, choose = self.random.random, self.random.choice
        key = choose(KEYS[:3] if pick() < 0.9 else (*KEYS, "short", None))
        secret = self.secret(key) if pick() < 0.97 else choose(("short", 12345678, None))
        made: dict[str, Any] = {"accessKey": key, "secretKey": secret}
        options = {
            "whiteRemoteAddress": lambda: self.white() if pick() < 0.3 else choose(("", None)),
            "admin": lambda: pick() < 0.3,
            "defaultTopicPerm": lambda: choose(PERMS),
            "defaultGroupPerm": lambda: choose(PERMS),
            "topicPerms": lambda: [
                f"{choose(TOPICS)}={choose(PERMS)}" for _ in range(self.random.randint(0, 3))
            ],
            "groupPerms": lambda: [f"{choose(GROUPS)}={choose(PERMS)}"],
        }
        made |= {name: make() for name, make in options.items() if pick() < 0.6}
        if pick() < 0.15:
            made["secretKey"] = f"{PLAIN}{choose(list(PLAIN_SECRETS))}{PLAIN}"
        if pick() < 0.1:
            made["admin"] = f"{PLAIN}{choose(PLAIN_SWITCHES)}{PLAIN}"
        if pick() < 0.02:
            made["topicPerms"] = [choose(("orders", "a=b=SUB", "=SUB", " orders = SUB ", "a==SUB"))]
        return made

    def request(self) -> Command:
        pick, choose = self.random.random, self.random.choice
        code = choose(CODES)
        fields = {
            "topic": choose(TOPICS),
            "b": choose(TOPICS),
            "a": choose(GROUPS),
            "group": choose(GROUPS),
            "consumerGroup": choose(GROUPS),
            "clientID": "é@1",
            "queueId": "0",
            "commitOffset": "5",
            "zone": choose(("", "x", "\U0001f600")),
        }
        if pick() < 0.1:
            del fields[choose(list(fields))]
        version = choose((393, 399, 401, 513))
        # 4.9.8 refuses what clients after 4.9.3 sign; see `signatures.content`.
        if pick() < 0.1 and (self.has_flag or version < 400):
            fields["_UNIQUE_KEY_QUERY"] = "true"
        body = self.random.randbytes(choose((0, 5)))
        if code == RequestCode.HEART_BEAT:
            topics = [{"topic": each} for each in self.random.sample(TOPICS, choose((0, 1, 2)))]
            consumers = [{"groupName": choose(GROUPS), "subscriptionDataSet": topics}]
            body = json.dumps({"clientID": "c", "consumerDataSet": consumers}).encode()
        return Command(code, version=version, fields=fields, body=body)

    def address(self) -> str:
        return f"{self.random.choice(PEERS + PEERS6)}:4711"


def yaml_of(value: Any) -> str:
    """Return YAML: JSON is such, and what is between two of `PLAIN` has no quotes."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace(f'"{PLAIN}', "").replace(f'{PLAIN}"', "")


def ask(version: str, questions: list[str], *options: str) -> list[str]:
    """Return a line for each question; `options` are the JVM's."""
    with tempfile.TemporaryDirectory(prefix="acl-") as root:
        asked, answers = Path(root) / "questions", Path(root) / "answers"
        asked.write_text("".join(f"{each}\n" for each in questions), "utf-8")
        target = HERE / "target" / version
        path = f"{target}/classes:{target}/lib/*"
        command = ["java", "-Xmx512m", f"-Duser.home={root}", *options, "-cp", path, "oracle.Acl"]
        done = subprocess.run(
            [*command, asked, answers], capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-4000:])
        return answers.read_text("utf-8").splitlines()


def build(version: str) -> None:
    done = subprocess.run(
        [HERE / "build.sh", version], capture_output=True, text=True, env=os.environ, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])


def begin(home: Path, version: str) -> tuple[Access | None, str]:
    try:
        return Access(home / "conf", VERSIONS[version]), "ok"
    except AccessError as error:
        return None, f"!{error}"


def signed(version: str, maker: Maker, count: int) -> list[Command]:
    """Return requests that clients of that version signed, some of them changed afterwards."""
    requests, lines = [], []
    for _ in range(count):
        request = maker.request()
        key = maker.random.choice(KEYS[: 3 if maker.random.random() < 0.9 else None])
        secret = maker.secret(key)
        if maker.random.random() < 0.2:
            secret = maker.random.choice([*PLAIN_SECRETS, *PLAIN_SECRETS.values()])
        requests.append((request, key))
        lines.append(f"SIGN\t{coded(key)}\t{coded(secret)}\t{said(request)}")
    found = []
    for (request, key), signature in zip(requests, ask(version, lines), strict=True):
        assert request.fields is not None
        fields = {**request.fields, "AccessKey": key, "Signature": signature}
        pick = maker.random.random()
        if pick < 0.05:
            fields[maker.random.choice(list(fields))] = "changed"
        elif pick < 0.1:
            del fields[maker.random.choice(("AccessKey", "Signature"))]
        found.append(request._replace(fields=fields if pick < 0.98 else None))
    return found


def ours(access: Access, request: Command, address: str) -> str:
    answer = access.check(request, Peer(address))  # type: ignore[arg-type]
    return "ok" if answer is None else f"!{answer.remark}"


def compare(version: str, homes: int, count: int, seed: int) -> tuple[list[str], Counter[str]]:
    """Compare `homes` files with `count` requests each.

    Returns:
        What differs, a line each; how often each kind of answer came.
    """
    maker = Maker(seed, has_flag=VERSIONS[version] is RELEASE_5_5)
    requests = signed(version, maker, homes * count)
    cases: list[Case] = []
    with tempfile.TemporaryDirectory(prefix="acl-homes-") as root:
        for number in range(homes):
            home = Path(root) / str(number)
            (home / "conf/acl").mkdir(parents=True)
            (home / "conf/plain_acl.yml").write_text(yaml_of(maker.document()), "utf-8")
            if maker.random.random() < 0.2:
                (home / "conf/acl/more.yml").write_text(yaml_of(maker.document()), "utf-8")
            access, answer = begin(home, version)
            cases.append(Case(f"HOME\t{home}", answer))
            for _ in range(count if access else 0):
                request, address = requests.pop(), maker.address()
                assert access is not None
                question = f"CHECK\t{address}\t{said(request)}"
                cases.append(Case(question, ours(access, request, address)))
        theirs = ask(version, [case.question for case in cases])
    return judged(cases, theirs)


def judged(cases: list[Case], theirs: list[str]) -> tuple[list[str], Counter[str]]:
    """Return what differs, and how often each kind of answer came."""
    kinds: Counter[str] = Counter()
    differences, home = [], ""
    for case, raw in zip(cases, theirs, strict=True):
        answer = raw if raw == "ok" else "!" + base64.b64decode(raw[1:]).decode()
        kind = case.question.split("\t", 1)[0]
        kinds[f"{kind} {' '.join(answer.split(': ')[-1].split()[:2])}"] += 1
        if kind == "HOME":
            home = case.question
            # Why a file is refused is said in words of ours.
            is_equal = (answer == "ok") is (case.ours == "ok")
        else:
            is_equal = same(answer, case.ours)
        if not is_equal:
            differences.append(f"{home}: {case.question}: ours {case.ours!r}, theirs {answer!r}")
    return differences, kinds


def same(theirs: str, found: str) -> bool:
    """Tell whether answers are equal; a map decides which of several topics Java names first."""
    for mark in ("No default permission for ", "No permission for "):
        if mark in theirs and "permission for " in found:
            return True
    return theirs == found


def main() -> int:
    """Run the comparisons; the exit code says whether anything differed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--homes", type=int, default=100, help="brokers, each with files of its own"
    )
    parser.add_argument("--requests", type=int, default=50, help="requests to each")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    bad = 0
    for version in VERSIONS:
        build(version)
        differences, kinds = compare(version, args.homes, args.requests, args.seed)
        for line in differences[:20]:
            print(line)
        bad += len(differences)
        print(f"{version}: {kinds.total()} questions: {len(differences)} differences")
        print("  " + ", ".join(f"{kind} {times}" for kind, times in sorted(kinds.items())))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
