"""Completions in files: a cache, a recording that replays without a model, and answers written by hand.

A file is named after the hash of its request, so the same question finds the same answer, and any change of prompt,
data or model asks anew. What lies in such a file is as untrusted as what comes over the network.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from instar.engine.llm.errors import AnswerAwaited, NotRecorded
from instar.engine.llm.requests import Completer, Completion, Request
from instar.memstore.tokens import count_tokens

MAX_ANSWER = 1_000_000
"""Bytes of a file that is read."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Completions by the hash of their request; made when something is first put in, readable by its owner only."""

    path: Path

    def get(self, key: str) -> Completion | None:
        """The completion of a request; None where there is none that can be read."""
        text = _text_of(self.path / f"{key}.json")
        if text is None:
            return None
        try:
            return Completion.model_validate(json.loads(text)["completion"])
        except (ValueError, ValidationError, KeyError, TypeError, RecursionError):
            return None

    def put(self, request: Request, completion: Completion) -> None:
        """Keep a completion with the question it answers."""
        content = {
            "role": request.role,
            "model": request.model,
            "prompt": request.prompt,
            "document": request.document,
            "completion": completion.model_dump(mode="json"),
        }
        _write(self.path, f"{request.key}.json", json.dumps(content, ensure_ascii=False, indent=1))


@dataclass(frozen=True, slots=True)
class Cached:
    """Asks once; the same request later is answered from the folder, and costs nothing."""

    inner: Completer
    folder: Folder
    recording: Folder | None = None
    """Where everything that was answered is put as well, to replay it elsewhere."""

    def complete(self, request: Request) -> Completion:
        """Answer from the folder, else ask; see `Completer`."""
        known = self.folder.get(request.key)
        if known is None:
            known = self.inner.complete(request)
            self.folder.put(request, known)
        if self.recording is not None:
            self.recording.put(request, known)
        return known


@dataclass(frozen=True, slots=True)
class Replay:
    """Answers from a recording and from nothing else."""

    folder: Folder

    def complete(self, request: Request) -> Completion:
        """Answer as recorded.

        Raises:
            NotRecorded: there is no such completion.
        """
        known = self.folder.get(request.key)
        if known is None:
            raise NotRecorded(str(self.folder.path), request.role, request.key)
        return known


@dataclass(frozen=True, slots=True)
class Handoff:
    """Writes each prompt to a file, and takes the answer from the file beside it once it is there."""

    folder: Path

    def complete(self, request: Request) -> Completion:
        """Answer from the file.

        Raises:
            AnswerAwaited: it is not there; the prompt is.
        """
        stem = f"{request.role}-{request.key}"
        prompt, answer = self.folder / f"{stem}.prompt.md", self.folder / f"{stem}.answer.md"
        text = _text_of(answer)
        if text is None or not text.strip():
            _write(self.folder, prompt.name, _as_page(request, answer.name))
            raise AnswerAwaited(str(prompt), str(answer))
        return Completion(
            text=text,
            model="by hand",
            input_tokens=request.input_tokens,
            output_tokens=count_tokens(text),
            estimated=True,
        )


def _as_page(request: Request, answer: str) -> str:
    schema = json.dumps(request.schema, indent=1, ensure_ascii=False)
    return (
        f"Give this to a model of your choice, and put its answer, one JSON object, into `{answer}`.\n\n"
        f"{request.system}\n\n{request.user}\n\nThe answer has this JSON Schema:\n\n```json\n{schema}\n```\n"
    )


def _text_of(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_ANSWER).decode("utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _write(folder: Path, name: str, text: str) -> None:
    """Write a file that is either there in full or not at all."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = folder / f".{name}.{os.getpid()}"
    partial.write_text(text, encoding="utf-8")
    partial.chmod(0o600)
    partial.replace(folder / name)
