"""The spool on a full disk: an event is in the file as a whole or not at all, and the next one is kept."""

from collections.abc import Callable

FULL = """
import errno, json, sys
from pathlib import Path
from instar.core.spool import append, waiting
disk = Path(sys.argv[1])
folder = str(disk / "spool")
append(folder, "some", [{"n": 1}])
filling = disk / "filling"
with filling.open("wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        file.truncate(file.tell() - 8 * 4096)
try:
    append(folder, "some", [{"n": 2, "text": "x" * 200_000}])
except OSError as error:
    print(errno.errorcode[error.errno])
append(folder, "some", [{"n": 3}])
filling.unlink()
append(folder, "some", [{"n": 4}])
print([json.loads(line)["n"] for line in (disk / "spool" / "some.jsonl").read_text().splitlines()])
print(waiting(folder).files)
"""


def test_an_event_that_finds_no_room_leaves_no_half_of_it_and_takes_no_room_from_the_next(
    on_a_small_disk: Callable[..., str],
) -> None:
    assert on_a_small_disk(FULL).splitlines() == ["ENOSPC", "[1, 3, 4]", "1"]
