"""Speed and memory on generated sessions."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from .conftest import Write, answer, assistant, call, read, user

MEASURE = textwrap.dedent("""
    import resource, sys
    from pathlib import Path
    from instar.engine.importers import Imported, read_sources
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count = sum(isinstance(item, Imported) for item in read_sources([Path(sys.argv[1])]))
    print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
""")


def record(number: int) -> dict[str, object]:
    messages = [user(f"Please look at order {number}")]
    for step in range(15):
        order = f"#W{number}-{step}"
        items = [{"sku": f"{number}-{step}-{item}", "price": 12.5, "name": "Lamp"} for item in range(6)]
        messages.append(assistant(call(f"c{step}", "get_order", json.dumps({"order_id": order}))))
        messages.append(answer(f"c{step}", {"order_id": order, "items": items, "status": "delivered"}))
    return {"id": f"s{number}", "messages": messages}


def test_a_thousand_sessions_of_thirty_steps_are_read_in_three_seconds(write: Write) -> None:
    path = write("s.jsonl", "".join(json.dumps(record(number)) + "\n" for number in range(1000)))
    start = time.process_time()
    reading = read(path)
    seconds = time.process_time() - start
    assert [len(session.steps) for session in reading.sessions] == [31] * 1000
    assert seconds <= 3.0, f"{seconds:.2f} s"


def grow(path: Path, layout: str, megabytes: int) -> int:
    """Write that much, and say how many sessions it is."""
    body = json.dumps(record(1), indent=1 if layout == "indented" else None)
    count = megabytes * 1_000_000 // len(body)
    with path.open("w") as file:
        if layout == "lines":
            file.writelines(body + "\n" for _ in range(count))
        else:
            file.write("[")
            file.writelines((",\n" if number else "") + body for number in range(count))
            file.write("]")
    return count


@pytest.mark.parametrize(
    ("layout", "megabytes"),
    [
        ("lines", 30),
        ("array", 30),
        pytest.param("lines", 200, marks=pytest.mark.soak),
        pytest.param("array", 200, marks=pytest.mark.soak),
        pytest.param("indented", 200, marks=pytest.mark.soak),
    ],
)
def test_a_large_file_is_read_in_memory_that_does_not_grow_with_it(
    tmp_path: Path, layout: str, megabytes: int
) -> None:
    path = tmp_path / "large.json"
    expected = grow(path, layout, megabytes)
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    count, kilobytes = map(int, done.stdout.split())
    assert count == expected
    assert kilobytes < 16 * 1024, f"{kilobytes} KiB more than before reading"
