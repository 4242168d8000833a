"""What is put into a log: messages made from a seed, so that a step makes the same ones each time."""

from __future__ import annotations

import random
from typing import NamedTuple

from reput.formats.rocketmq.commitlog import COMMIT, PREPARED, ROLLBACK

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
BATCHES = "batches"
FAN = "fan-0"
BORN_HOST, BORN_PORT = "127.0.0.1", 54321
STORE_HOST, STORE_PORT = "127.0.0.1", 10911
_TAGS = ("TagA", "TagB", "标签", "x" * 40, "polygenelubricants")
# Bodies so large that a few of them fill a file, by the size of the log's files.
_LARGE = 6
_FIXED = 20


class Traits(NamedTuple):
    """Which kinds of messages a store has, and how large its files are.

    Attributes:
        version: of the broker.
        log_file: bytes of a log file.
        fans_out: messages go to a further queue.
        has_batches: some topics have batch queues.
        is_quiet: no write changes a file's times but those that the kernel notes of itself.
    """

    version: str
    log_file: int
    fans_out: bool = False
    has_batches: bool = False
    is_quiet: bool = False


class Put(NamedTuple):
    """A message as the store gets it.

    Attributes:
        ticks: ms from the one before.
        stored: ms, the store's clock; 0 for the clock as it is.
        fans_out: it goes to a further queue, at that queue's next offset.
    """

    topic: str
    queue_id: int
    properties: str
    body: bytes
    flag: int = 0
    sys_flag: int = 0
    born: int = 1_700_000_000_000
    ticks: int = 1
    stored: int = 0
    fans_out: bool = False


def pairs(**properties: str) -> str:
    """Return properties as they are stored."""
    return "".join(f"{key}\x01{value}\x02" for key, value in properties.items())


def make(kind: str, count: int, seed: int, traits: Traits, taken: list[Put]) -> list[Put]:
    """Return messages.

    Args:
        kind: mixed; same, all records of one size; large, so that files roll; zero, the last byte
            of each record is one; twin, those that were cut last, with other tags; longer and
            shorter, the same with records of other sizes.
        count: how many, at most.
        seed: decides the rest.
        traits: of the store.
        taken: what was cut from the log last.
    """
    pick = random.Random(seed)
    if kind in {"twin", "longer", "shorter"} and taken:
        return [_twin(put, kind, pick) for put in taken[:count]]
    makers = {"mixed": _mixed, "large": _large, "zero": _zero}
    return [makers.get(kind, _same)(pick, traits, seed, i) for i in range(count)]


def _same(pick: random.Random, _traits: Traits, seed: int, i: int) -> Put:
    properties = pairs(KEYS=f"k{seed % 10**6:06d}-{i:04d}", TAGS=f"T{seed % 1000:03d}", WAIT="true")
    return Put("same", 0, properties, pick.randbytes(_FIXED), ticks=pick.randrange(40))


def _large(pick: random.Random, traits: Traits, seed: int, i: int) -> Put:
    size = pick.randrange(traits.log_file // (2 * _LARGE), traits.log_file // _LARGE)
    properties = pairs(UNIQ_KEY=f"{pick.getrandbits(64):032X}", KEYS=f"large{i}")
    return Put("large", 0, properties, bytes(size), ticks=pick.randrange(500))


def _zero(pick: random.Random, traits: Traits, seed: int, i: int) -> Put:
    """4.9 does not end the last property; one that ends with U+0000 is a record that does."""
    if traits.version.startswith("4"):
        return Put("same", 0, f"KEYS\x01z{seed}-{i}\x02TAGS\x01nul\0", b"zero", ticks=3)
    return Put("same", 0, "", pick.randbytes(4), ticks=3)


def _mixed(pick: random.Random, traits: Traits, seed: int, i: int) -> Put:
    topic = pick.choice(("orders", "orders", "payments", "订单"))
    properties = {"WAIT": "true"}
    if pick.random() < 0.7:
        properties["TAGS"] = pick.choice(_TAGS)
    if pick.random() < 0.7:
        properties["KEYS"] = pick.choice(("k1", "k1 k2", f"k{seed}-{i}", "ключ 钥匙", " k3  k3 "))
    if pick.random() < 0.5:
        properties["UNIQ_KEY"] = f"{pick.getrandbits(128):032X}"
    queue_id = pick.randrange(2)
    chance = pick.random()
    sys_flag = pick.choice((COMMIT, PREPARED, ROLLBACK)) if chance < 0.15 else 0
    fans_out = False
    if 0.15 < chance < 0.25:
        # Put there as the store gets it: a 4.9 store would divert a message with DELAY itself.
        topic, properties["DELAY"] = SCHEDULE, pick.choice(("1", "3", "18", "40"))
    elif traits.has_batches and chance < 0.45:
        topic = BATCHES
        if pick.random() < 0.8:
            properties |= {"INNER_NUM": str(pick.randint(1, 9)), "INNER_BASE": str(seed % 100)}
    elif traits.fans_out and chance < 0.45:
        fans_out = True
    return Put(
        topic,
        queue_id,
        pairs(**properties),
        pick.randbytes(pick.choice((0, 1, 20, 90, 300))),
        flag=pick.choice((0, 0, 7)),
        sys_flag=sys_flag,
        ticks=pick.choice((0, 1, 5, 40, 3000)),
        fans_out=fans_out,
    )


def _twin(put: Put, kind: str, pick: random.Random) -> Put:
    """Return a message that has another one's head in its record, and other properties.

    The tag has as many bytes, or some more or fewer; the time in the store is the same one.
    """
    before, mark, rest = put.properties.partition("TAGS\x01")
    if not mark:
        before, rest = put.properties, "\x02"
    tag, end, behind = rest.partition("\x02")
    length = len(tag.encode())
    if kind == "longer":
        length += pick.randint(1, 30)
    elif kind == "shorter":
        length = max(0, length - pick.randint(1, 30))
    other = "".join(pick.choice("abcdefgh") for _ in range(length))
    properties = f"{before}TAGS\x01{other}{end}{behind}" if mark or other else put.properties
    return put._replace(properties=properties)


def poison(version: str, seed: int) -> Put:
    """Return a message that a broker stores and cannot parse: its next start cuts its log there."""
    if version.startswith("4") or seed % 2:
        return Put(SCHEDULE, 0, pairs(DELAY="abc", TAGS="poison"), b"poison")
    return Put("orders", 0, pairs(INNER_NUM="40000", INNER_BASE="1"), b"poison")


def is_poison(topic: str, properties: dict[str, str], version: str) -> bool:
    """Tell whether a broker cannot parse a record with these properties."""
    delay = properties.get("DELAY")
    if topic == SCHEDULE and delay is not None and not delay.strip("+-").isdecimal():
        return True
    number, base = properties.get("INNER_NUM"), properties.get("INNER_BASE")
    if version.startswith("4") or number is None or base is None:
        return False
    return not -32768 <= int(number) <= 32767
