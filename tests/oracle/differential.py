#!/usr/bin/env python3
"""Random stores of the real broker, each rebuilt from its commitlog alone and compared byte for byte.

    python tests/oracle/differential.py --version 5.5.0 --stores 300 --seed 1

The rebuild is streaming.dispatch.dispatcher.rebuild. With --by reput or --by default it is the broker's own:
that checks the stores, not us. A store that differs is kept, with the rebuild beside it, if --keep
gives a directory; its seed makes it again in any case.

--raw takes the stores of raw_stores.py in place of the broker's, and compares with what the broker's
own rebuild makes of them. Stores that the broker does not start on are counted, and not compared.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import compare  # noqa: E402
import oracle  # noqa: E402
import raw_stores  # noqa: E402

Rebuild = Callable[[str, int, int, Path, Path], None]
"""(version, first seed, count, stores, outputs)"""


def _by_us(version: str, seed: int, count: int, stores: Path, outputs: Path) -> None:
    from reput.streaming.dispatch.dispatcher import rebuild

    for n in range(seed, seed + count):
        bare = outputs / f"{n}.input"
        _only_the_log(stores / str(n), bare)
        try:
            conf = oracle.config_of(stores / f"{n}.facts")
            rebuild(bare, outputs / str(n), broker_version=version, broker_conf=conf)
        except Exception:  # noqa: BLE001 - one store's failure must not end the run: it is reported as a difference
            traceback.print_exc()
        shutil.rmtree(bare)


def _only_the_log(store: Path, bare: Path) -> None:
    """Nothing that could be copied from the broker's work is where the rebuild reads."""
    shutil.copytree(store / "commitlog", bare / "commitlog")
    if (store / "config").is_dir():
        shutil.copytree(store / "config", bare / "config")


def _by_broker(mode: str) -> Rebuild:
    def rebuild(version: str, seed: int, count: int, stores: Path, outputs: Path) -> None:
        oracle.run(
            version,
            "Rebuild",
            str(seed),
            str(count),
            stores,
            outputs,
            f"--mode={mode}",
            timeout=60 + 3 * count,
        )

    return rebuild


def _raw_stores(version: str, seed: int, count: int, root: Path) -> set[int]:
    """Make raw stores in `stores` and the broker's rebuilds in `brokers`; return who failed."""
    for n in range(seed, seed + count):
        store = raw_stores.RawStore(n, is_v4=version.startswith("4."))
        store.write(root / "stores" / str(n))
    printed = oracle.run(
        version,
        "Rebuild",
        str(seed),
        str(count),
        root / "stores",
        root / "brokers",
        "--mode=reput",
        "--go-on",
        timeout=300 + 6 * count,
    )
    failed = {int(line.split()[1]) for line in printed.splitlines() if line.startswith("failed ")}
    if len(failed) > count / 2:
        raise oracle.OracleError(f"the broker starts on less than half of the stores: {printed}")
    return failed


def _chunk(args: argparse.Namespace, seed: int, count: int, root: Path) -> tuple[int, int]:
    """Return how many stores differ, and on how many the broker did not start."""
    rebuild = _by_us if args.by == "us" else _by_broker(args.by)
    stores, outputs = root / "stores", root / "outputs"
    if args.raw:
        failed, expected = _raw_stores(args.version, seed, count, root), root / "brokers"
    else:
        oracle.fuzz_stores(args.version, seed, count, stores)
        failed, expected = set[int](), stores
    rebuild(args.version, seed, count, stores, outputs)
    bad = 0
    for n in range(seed, seed + count):
        found = compare.differences(expected / str(n), outputs / str(n))
        if found and n not in failed:
            bad += 1
            print(f"seed {n}: {len(found)} files differ", flush=True)
            for line in found[:5]:
                print(f"    {line}")
            if args.keep is not None:
                for side in {stores, expected, outputs}:
                    shutil.copytree(
                        side / str(n), args.keep / side.name / str(n), dirs_exist_ok=True
                    )
                shutil.copy(stores / f"{n}.facts", args.keep / "stores")
    for side in {stores, expected, outputs}:
        shutil.rmtree(side, ignore_errors=True)
    return bad, len(failed)


def main() -> int:
    """Runs the chunks one after the other; the exit code says whether anything differed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", default=oracle.VERSIONS[0], choices=oracle.VERSIONS)
    parser.add_argument("--stores", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--chunk", type=int, default=50, help="stores a JVM makes before they are compared"
    )
    parser.add_argument("--by", choices=("us", "reput", "default"), default="us")
    parser.add_argument("--raw", action="store_true", help="raw records that no client makes")
    parser.add_argument("--keep", type=Path, help="a directory for the stores that differ")
    args = parser.parse_args()
    oracle.build(args.version)
    start = time.monotonic()
    bad = failed = 0
    with tempfile.TemporaryDirectory(prefix="differential-") as root:
        for seed in range(args.seed, args.seed + args.stores, args.chunk):
            count = min(args.chunk, args.seed + args.stores - seed)
            found = _chunk(args, seed, count, Path(root))
            bad, failed = bad + found[0], failed + found[1]
    seconds = time.monotonic() - start
    print(
        f"{args.version}: {args.stores} {'raw ' if args.raw else ''}stores from seed {args.seed} "
        f"rebuilt by {args.by}: {args.stores - bad - failed} the same, {bad} different"
        + (f", {failed} that the broker does not start on" if failed else "")
        + f" ({seconds:.0f} s)"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
