"""Runs one attempt: `python attempt.py GROUP NAME`, with `lure.json` beside it. Prints ESCAPED when it succeeded."""

from __future__ import annotations

import importlib
import json
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 — as little as possible


def main() -> None:
    """Try, and say so when it worked. A refusal is the expected answer, whatever its type."""
    sys.path.append(FOLDER)
    with open(os.path.join(FOLDER, "lure.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
        lure = json.load(file)
    attempt = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])
    try:
        succeeded = attempt(lure)
    except Exception as error:  # noqa: BLE001 — every way to be refused is fine
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return
    if succeeded:
        sys.stdout.write("\nESCAPED\n")
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
