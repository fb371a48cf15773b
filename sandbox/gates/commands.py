"""Run a checker on the trusted side over hostile text: fixed command, empty environment, bounded time and output."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from instar.sandbox.gates.errors import ToolBroke

MAX_OUTPUT = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Finished:
    """How a checker ended."""

    code: int
    output: str
    errors: str


@contextmanager
def unpacked(files: Mapping[str, bytes], paths: Sequence[str]) -> Iterator[Path]:
    """The named files in a private folder that vanishes afterwards."""
    with tempfile.TemporaryDirectory(prefix="instar-gate-") as name:
        folder = Path(name)
        for path in paths:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(files[path])
        yield folder


def run_checker(
    tool: str, command: Sequence[str], folder: Path, *, seconds: float, codes: Sequence[int] = (0, 1)
) -> Finished:
    """Run to the end and return what it printed.

    Raises:
        ToolBroke: it is missing, hung, printed without end, or ended with a code that is no verdict.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            done = subprocess.run(
                list(command),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={},
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ToolBroke(tool, f"no answer within {seconds:g} s") from error
        except OSError as error:
            raise ToolBroke(tool, str(error)) from error
        texts = []
        for stream in (out, err):
            stream.seek(0)
            content = stream.read(MAX_OUTPUT + 1)
            if len(content) > MAX_OUTPUT:
                raise ToolBroke(tool, f"more than {MAX_OUTPUT} bytes of output")
            texts.append(content.decode("utf-8", "replace"))
    if done.returncode not in codes:
        raise ToolBroke(tool, f"exit code {done.returncode}: {texts[1].strip()[:500]}")
    return Finished(done.returncode, texts[0], texts[1])
