"""Records sessions at the order desk as OpenAI chat messages, one JSON document a line.

    python -m examples.order_desk.record --seed 7 --sessions 60 --per-file 15 --out desk.jsonl

The same seed writes the same bytes; every session is another customer's request, however many are asked for.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path

from examples.order_desk.agent import REQUESTS
from examples.order_desk.conversation import Conversation, LeftEarly
from examples.order_desk.desk import CUSTOMERS, SEED, TODAY, Desk, Row, schemas

PER_SHOP = 100
"""After so many sessions the customers are others: ids, names and orders of a new seed; the products stay."""


def sessions(seed: int, number_of: int) -> Iterator[Row]:
    """Yield that many sessions, each made when it is asked for."""
    for first in range(0, number_of, PER_SHOP):
        desk = Desk(seed + first // PER_SHOP, customers=CUSTOMERS)
        try:
            for number in range(first, min(first + PER_SHOP, number_of)):
                yield _session(desk, seed, number)
        finally:
            desk.close()


def _session(desk: Desk, seed: int, number: int) -> Row:
    rng = random.Random(f"{seed}/{number}")
    talk = Conversation(desk, rng)
    kind = rng.choices(list(REQUESTS), [weight for weight, _ in REQUESTS.values()])[0]
    try:
        well = REQUESTS[kind][1](talk)
    except LeftEarly:
        well = False
    started = datetime(TODAY.year, TODAY.month, TODAY.day, 8, tzinfo=UTC) + timedelta(minutes=7 * number)
    return {
        "id": f"order-desk-{seed}-{number:05d}",
        "project": "order-desk",
        "task": f"{kind}-{seed}-{number:05d}",
        "started_at": started.isoformat(),
        "outcome": {"reward": 1.0 if well else 0.0},
        "tools": list(schemas()),
        "messages": list(talk.messages),
    }


def main() -> None:
    """Write the sessions that the command line asks for."""
    parser = argparse.ArgumentParser(description="Record sessions at the order desk.")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--sessions", type=int, default=60, metavar="N")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--per-file", type=int, metavar="N", help="write FILE-1, FILE-2, … of so many sessions each")
    chosen = parser.parse_args()
    write(sessions(chosen.seed, chosen.sessions), chosen.out, per_file=chosen.per_file)


def write(recorded: Iterator[Row], out: Path, *, per_file: int | None = None) -> None:
    """Write sessions to one file, or to numbered files of `per_file` sessions each."""
    if per_file is None:
        _write_file(recorded, out)
        return
    for number in count(1):
        part = list(islice(recorded, per_file))
        if not part:
            return
        _write_file(iter(part), out.with_stem(f"{out.stem}-{number}"))


def _write_file(recorded: Iterator[Row], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(session, ensure_ascii=False) + "\n" for session in recorded)


if __name__ == "__main__":
    main()
