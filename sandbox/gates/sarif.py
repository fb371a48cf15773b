"""A gate report as SARIF 2.1.0, the format that code hosts and editors show findings in (OASIS, 2020)."""

from __future__ import annotations

from pydantic import JsonValue

from instar.sandbox.report import Finding, GateReport, GateResult, Verdict

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"info": "none", "low": "note", "elevated": "warning", "high": "error"}


def to_sarif(report: GateReport) -> dict[str, JsonValue]:
    """One run for each gate that ended, with its verdict, its findings and where they are."""
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(report, result) for result in report.results]}


def _run(report: GateReport, result: GateResult) -> JsonValue:
    rules = sorted({_rule(result, finding) for finding in result.findings})
    return {
        "automationDetails": {"id": f"instar/{result.gate}/{report.digest}"},
        "tool": {
            "driver": {
                "name": f"instar {result.gate}",
                "rules": [{"id": rule} for rule in rules],
                "properties": {"tools": dict(report.tools)},
            }
        },
        "invocations": [
            {
                # A gate that could not judge did not run successfully; one that rejects did.
                "executionSuccessful": result.verdict is not Verdict.INCOMPLETE,
                "exitCodeDescription": result.summary,
            }
        ],
        "results": [_result(result, finding, rules) for finding in result.findings],
        "properties": {
            "verdict": result.verdict.value,
            "seconds": result.seconds,
            "counts": dict(result.counts),
            "skill": report.skill,
            "version": report.version,
            "risk": report.risk,
            "isolation": list(report.isolation),
        },
    }


def _result(result: GateResult, finding: Finding, rules: list[str]) -> JsonValue:
    rule = _rule(result, finding)
    found: dict[str, JsonValue] = {
        "ruleId": rule,
        "ruleIndex": rules.index(rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
    }
    if finding.file:
        place: dict[str, JsonValue] = {"artifactLocation": {"uri": _uri(finding.file)}}
        if finding.line:
            place["region"] = {"startLine": finding.line}
        found["locations"] = [{"physicalLocation": place}]
    return found


def _rule(result: GateResult, finding: Finding) -> str:
    return f"{result.gate}/{finding.rule or 'finding'}"


def _uri(path: str) -> str:
    """A relative reference; what stands where a file would (a hold-out) is made one."""
    return "".join(
        char if char.isalnum() or char in "/._-" else f"%{ord(char):02X}" for char in path if char.isascii()
    )
