from __future__ import annotations

import ast
import sys
import threading

from instar.sandbox.gates.parsing import parse_python

SOURCE = b"def run(tools):\n" + b"".join(
    b"    x%d = [tools.call('a', {'b': [%d, (1, 2)]})]\n" % (n, n) for n in range(150)
)


def test_drafts_can_be_parsed_in_several_threads_at_once() -> None:
    trees: list[ast.Module] = []
    failures: list[BaseException] = []

    def parse() -> None:
        try:
            trees.extend(parse_python(SOURCE) for _ in range(30))
        except SystemError as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=parse) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
    assert len(trees) == 120
