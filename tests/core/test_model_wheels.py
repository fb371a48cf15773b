"""Skills of a model that read and write files and bring a wheel along: from sessions to a real use."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from instar.core.skills import call_skill
from instar.engine.llm.played import Answers
from instar.engine.llm.played_jobs import Exchange, knowing, recorded
from instar.engine.session import Session
from instar.sandbox.report import Verdict
from instar.skills.manifest import Manifest
from instar.skills.package import MANIFEST

Modelled = Callable[..., AbstractContextManager[Any]]
GOODS = ("kettle", "ladder", "basket", "candle", "mirror", "pillow", "carpet", "drawer", "hammer")

PDF_WITH_PYPDF = """\
import base64
import io

from pypdf import PdfReader


def run(tools, *, path: str):
    content = base64.b64decode(tools.call("files.read", {"path": path, "encoding": "base64"}))
    lines = PdfReader(io.BytesIO(content)).pages[0].extract_text().strip().splitlines()
    text = "# " + lines[0] + "\\n\\n" + "\\n".join("- " + line for line in lines[1:]) + "\\n"
    tools.call("files.write", {"path": path + ".md", "text": text})
    return text
"""
PDF_WITH_OWN = PDF_WITH_PYPDF.replace("from pypdf import PdfReader", "import tiny_pdf").replace(
    "PdfReader(io.BytesIO(content)).pages[0].extract_text().strip().splitlines()",
    "tiny_pdf.lines(io.BytesIO(content).read())",
)
TINY_PDF = """\
import re


def lines(content):
    return [found.decode() for found in re.findall(rb"\\((.*?)\\) Tj", content)]
"""


def pdf(good: str) -> bytes:
    """One page with a title and two lines, as small as a PDF can be."""
    drawn = "BT /F1 12 Tf 14 TL 50 700 Td " + " ".join(f"({line}) Tj T*" for line in pdf_lines(good)) + " ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body = b"%PDF-1.4\n"
    offsets = []
    for number, item in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{item}\nendobj\n".encode()
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    end = (
        f"xref\n0 6\n0000000000 65535 f \n{table}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    )
    return body + end.encode()


def pdf_lines(good: str) -> list[str]:
    return [f"Report on the {good}", f"The {good} sold well", f"The {good} is on stock"]


def markdown(good: str) -> str:
    first, *rest = pdf_lines(good)
    return f"# {first}\n\n" + "\n".join(f"- {line}" for line in rest) + "\n"


def reporting(number: int, folder: Path) -> Session:
    good = GOODS[number]
    path = f"{folder}/{good}.pdf"
    request = f"Turn the report {path} into Markdown, and write it into a file beside the report."
    content = base64.b64encode(pdf(good)).decode()
    text = markdown(good)
    exchanges: list[Exchange] = [
        ("files.read", {"path": path, "encoding": "base64"}, content),
        ("files.write", {"path": f"{path}.md", "text": text}, {"bytes": len(text)}),
    ]
    return recorded(number, request, exchanges, f"Done:\n{text}")


def reported_use(text: str) -> JsonValue:
    path = re.search(r"report (/\S+\.pdf)", text)
    good = Path(path[1]).stem if path else ""
    return {
        "applies": path is not None, "arguments_json": json.dumps({"path": path[1] if path else ""}), "calls": [1, 3],
        "returns_ref": 0, "returns_path": [], "returns_json": json.dumps(markdown(good)),
    }  # fmt: skip


def reports(code: str, wheel: str) -> Answers:
    return knowing(
        reported_use, code, ["files.read", "files.write"], [wheel, "requests"], skill="report-to-markdown",
        title="A report as Markdown", summary="Turn a report into Markdown and write it into a file beside it.",
        purpose="Turn a report into Markdown and write it into a file beside it.",
        when_to_use=["A report is to be turned into Markdown"],
        inputs=[{"name": "path", "type": "string", "meaning": "The file of the report.", "required": True}],
        output_type="string",
    )  # fmt: skip


def wheelhouse(tmp_path: Path) -> Path:
    """A wheel of our own that reads the text of simple PDFs, and its pin."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel = folder / "tiny_pdf-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_pdf/__init__.py", TINY_PDF)
        archive.writestr("tiny_pdf-1.0.dist-info/METADATA", "Name: tiny-pdf\nVersion: 1.0\nSummary: Reads PDFs\n")
        archive.writestr("tiny_pdf-1.0.dist-info/WHEEL", "Root-Is-Purelib: true\n")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "requirements.txt").write_text(f"tiny-pdf==1.0 \\\n    --hash=sha256:{digest}\n")
    return folder


WHEELS = "INSTAR_TEST_WHEELS"


@pytest.mark.parametrize(
    ("wheel", "code"),
    [
        ("tiny-pdf", PDF_WITH_OWN),
        pytest.param(
            "pypdf",
            PDF_WITH_PYPDF,
            marks=pytest.mark.skipif(
                not os.environ.get(WHEELS), reason=f"{WHEELS} names no folder with the wheel of pypdf and its pin"
            ),
        ),
    ],
)
def test_a_pdf_becomes_markdown_with_a_wheel_that_the_user_allowed(
    tmp_path: Path, modelled: Modelled, wheel: str, code: str
) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    wheels = Path(os.environ[WHEELS]) if wheel == "pypdf" else wheelhouse(tmp_path)
    with modelled(reports(code, wheel), wheels=wheels) as job:
        prd, one = job.built([reporting(n, folder) for n in range(7)])
        assert job.failures(one) == {}
        assert [(tool.name, tool.reach) for tool in prd.tools] == [
            ("files.read", [str(folder)]),
            ("files.write", [str(folder)]),
        ]
        assert [pin.name for pin in prd.wheels] == [wheel]
        assert one.report.risk == "elevated"
        assert any("cases hold documents as they were recorded" in risk for risk in prd.risks)
        assert any(
            "Reads PDFs" in json.dumps(asked) or "pure-python PDF" in json.dumps(asked) for asked in job.server.asked
        )
        manifest = Manifest.model_validate_json(job.file_of(one, MANIFEST))
        assert [(pin.name, len(pin.sha256)) for pin in manifest.dependencies] == [(wheel, 1)]
        job.approve(one)
        (folder / "lantern.pdf").write_bytes(pdf("lantern"))
        (tmp_path / "lantern.pdf").write_bytes(pdf("lantern"))
        live = job.with_tools(f'[tools.notes]\nbuiltin = "files"\nread = ["{tmp_path}"]\nwrite = ["{tmp_path}"]\n')
        used = call_skill(live, one.skill, {"path": f"{folder}/lantern.pdf"})
        assert (used.status, used.value) == ("returned", markdown("lantern"))
        assert (folder / "lantern.pdf.md").read_text() == markdown("lantern")
        outside = call_skill(live, one.skill, {"path": f"{tmp_path}/lantern.pdf"})
        assert (outside.status, "not granted for" in outside.error) == ("refused", True)
        assert not (tmp_path / "lantern.pdf.md").exists()


def test_a_program_that_needs_a_wheel_nobody_allowed_fails_and_reaches_nobody(
    tmp_path: Path, modelled: Modelled
) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    with modelled(reports(PDF_WITH_OWN, "tiny-pdf")) as job:
        prd, one = job.built([reporting(n, folder) for n in range(7)])
        assert prd.wheels == []
        assert one.verdict is Verdict.FAIL
        assert "imports tiny_pdf" in json.dumps(one.report.model_dump(mode="json"))
        assert one.review == ""
