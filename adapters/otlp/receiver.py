"""OTLP over HTTP: spans are written down by trace, without secrets, and stored with the next drain.

JSON and protobuf, plain or gzip. The attributes are read by the importer of `otel`, which knows the old and the new
names of the GenAI conventions, OpenInference and Vercel's AI SDK.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from instar.memstore.redaction import default_redactor, redact_fields

MAXIMUM = 16 * 1024 * 1024
_TRACE = re.compile(r"[0-9a-fA-F]{1,64}")
_PROTOBUF = "application/x-protobuf"


class Refused(ValueError):
    """A request that is no export of traces. `status` is the answer's."""

    def __init__(self, status: int, why: str) -> None:
        self.status, self.why = status, why
        super().__init__(status, why)


def receiver(folder: Path) -> Starlette:
    """The application: `POST /v1/traces` writes spans into files of `folder`, one for each trace."""

    async def traces(request: Request) -> Response:
        try:
            body = await _body(request)
            kind = request.headers.get("content-type", "").partition(";")[0].strip()
            export = await run_in_threadpool(_parse, body, kind)
            await run_in_threadpool(write_spans, folder, export)
        except Refused as error:
            return JSONResponse({"code": 3, "message": error.why}, status_code=error.status)
        except OSError as error:
            # The exporter tries again.
            return JSONResponse({"code": 14, "message": str(error.strerror)}, status_code=503)
        if kind == _PROTOBUF:
            return Response(b"", media_type=_PROTOBUF)
        return JSONResponse({"partialSuccess": {}})

    return Starlette(routes=[Route("/v1/traces", traces, methods=["POST"])])


def write_spans(folder: Path, export: Mapping[str, JsonValue]) -> int:
    """Write the spans of an export down; returns how many.

    Raises:
        Refused: it is no export of traces.
        OSError: they could not be written.
    """
    by_trace: dict[str, list[JsonValue]] = {}
    count = 0
    for resource, scope, span in _spans(export):
        trace = span.get("traceId")
        if not isinstance(trace, str) or not _TRACE.fullmatch(trace):
            raise Refused(400, "a span has no trace id in hexadecimal")
        clean, _ = redact_fields(default_redactor(), span, "span")
        by_trace.setdefault(trace.lower(), []).append(
            {"resource": resource, "scopeSpans": [{"scope": scope, "spans": [clean]}]}
        )
        count += 1
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for trace, spans in by_trace.items():
        line = json.dumps({"resourceSpans": spans}, ensure_ascii=False) + "\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(folder / f"{trace}.jsonl", flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(line.encode("utf-8", "replace"))
            file.flush()
            os.fdatasync(descriptor)
    return count


Record = dict[str, JsonValue]


def _spans(export: Mapping[str, JsonValue]) -> Iterator[tuple[JsonValue, JsonValue, Record]]:
    batches = export.get("resourceSpans")
    if not isinstance(batches, list):
        raise Refused(400, "there are no resourceSpans")
    for batch in batches:
        scopes = batch.get("scopeSpans") if isinstance(batch, dict) else None
        for scope in scopes if isinstance(scopes, list) else []:
            spans = scope.get("spans") if isinstance(scope, dict) else None
            for span in spans if isinstance(spans, list) else []:
                if isinstance(span, dict) and isinstance(batch, dict) and isinstance(scope, dict):
                    yield batch.get("resource"), scope.get("scope"), span


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAXIMUM:
            raise Refused(413, f"more than {MAXIMUM} bytes")
        parts.append(part)
    body = b"".join(parts)
    encoding = request.headers.get("content-encoding", "identity")
    if encoding == "identity":
        return body
    if encoding != "gzip":
        raise Refused(415, f"the encoding {encoding[:40]!r} is not known")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            opened = file.read(MAXIMUM + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise Refused(400, "the body is no gzip") from error
    if len(opened) > MAXIMUM:
        raise Refused(413, f"more than {MAXIMUM} bytes")
    return opened


def _parse(body: bytes, kind: str) -> Record:
    if kind == _PROTOBUF:
        return _from_protobuf(body)
    if kind != "application/json":
        raise Refused(415, "send application/json or application/x-protobuf")
    try:
        export = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "the body is not JSON") from error
    if not isinstance(export, dict):
        raise Refused(400, "the body is not an object")
    return export


def _from_protobuf(body: bytes) -> Record:
    try:
        # They come with the exporters; who sends JSON needs them not.
        from google.protobuf.json_format import MessageToDict  # noqa: PLC0415
        from google.protobuf.message import DecodeError  # noqa: PLC0415
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
            ExportTraceServiceRequest,
        )
    except ImportError as error:
        raise Refused(415, f"protobuf needs {error.name}; send application/json") from error
    message = ExportTraceServiceRequest()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise Refused(400, "the body is no export of traces") from error
    export: Record = MessageToDict(message)
    # In this form ids are base64, in OTLP's JSON hexadecimal.
    for _, _, span in _spans(export | {"resourceSpans": export.get("resourceSpans", [])}):
        for name in ("traceId", "spanId", "parentSpanId"):
            value = span.get(name)
            if isinstance(value, str):
                span[name] = _hexadecimal(value)
    return export | {"resourceSpans": export.get("resourceSpans", [])}


def _hexadecimal(encoded: str) -> str:
    return base64.b64decode(encoded).hex()
