"""The suites by command, as large as wanted: `python -m tests.suites SUITE --help`.

    python -m tests.suites level3
    python -m tests.suites drawn --schedules 1000
    python -m tests.suites drawn --schedules 10000 --examples 60     # 1,000,000 cases and more
    python -m tests.suites broken --inputs 100000
    python -m tests.suites faults                                    # every planted fault
    python -m tests.suites faults --every 20                         # one in twenty
    python -m tests.suites barriers                                  # of every example, each taken out

Work is divided over processes; what was counted is printed at the end.  Exits with 1 when anything failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from itertools import islice

from tests.suites import broken, drawn, level3, planted
from tests.suites.designs import DESIGNS
from tests.suites.tally import Tally

_PIECE_SCHEDULES = 25
_PIECE_INPUTS = 2500


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites")
    parser.add_argument("suite", choices=["level3", "drawn", "broken", "faults", "barriers"])
    parser.add_argument("--schedules", type=int, default=1000, help="of `drawn`: distinct schedules")
    parser.add_argument("--examples", type=int, default=10, help="of `drawn`: drawn cases for each schedule")
    parser.add_argument("--inputs", type=int, default=100_000, help="of `broken`")
    parser.add_argument("--every", type=int, default=1, help="of `faults`: one mutant in so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    chosen = parser.parse_args()
    started = time.monotonic()
    if chosen.suite in ("faults", "barriers"):
        return _planted(chosen)
    tally = _all(_pieces(chosen), chosen.workers)
    for failure in tally.failures:
        print(failure)
    print(f"{chosen.suite}: {tally}, {time.monotonic() - started:.0f} s")
    return 1 if tally.failures else 0


def _pieces(chosen: argparse.Namespace) -> Iterable[Callable[[], Tally]]:
    match chosen.suite:
        case "level3":
            return [partial(level3.sweep, design) for design in DESIGNS]
        case "drawn":
            return [
                partial(drawn.run, chosen.schedules, chosen.seed, chosen.examples, piece, _PIECE_SCHEDULES)
                for piece in range(0, chosen.schedules, _PIECE_SCHEDULES)
            ]
        case _:
            counts = [
                min(_PIECE_INPUTS, chosen.inputs - done) for done in range(0, chosen.inputs, _PIECE_INPUTS)
            ]
            return [partial(broken.run, count, chosen.seed + turn) for turn, count in enumerate(counts)]


def _planted(chosen: argparse.Namespace) -> int:
    mutants = planted.all_mutants() if chosen.suite == "faults" else planted.example_barriers()
    found = []
    for fate in planted.fates(islice(mutants, 0, None, chosen.every), chosen.workers):
        found.append(fate)
        if sys.stderr.isatty():
            print(f"\r{len(found)}", end="", file=sys.stderr, flush=True)
    print(planted.table(found))
    return 1 if any(map(planted.failed, found)) else 0


def _all(pieces: Iterable[Callable[[], Tally]], workers: int) -> Tally:
    total = Tally()
    with ProcessPoolExecutor(workers) as pool:
        running = [pool.submit(piece) for piece in pieces]
        for done, piece in enumerate(as_completed(running), 1):
            total.add(piece.result())
            if sys.stderr.isatty():
                print(f"\r{done} of {len(running)}", end="", file=sys.stderr, flush=True)
    return total


if __name__ == "__main__":
    sys.exit(main())
