import json

from instar.sandbox.gates.sarif import to_sarif
from instar.sandbox.report import Finding, GateReport, GateResult, Verdict

REPORT = GateReport(
    skill="user-with-orders",
    version="0.1.0",
    digest="sha256:" + "0" * 64,
    results=[
        GateResult(
            gate="policy",
            verdict=Verdict.FAIL,
            summary="uses eval",
            seconds=0.1,
            findings=[
                Finding(message="uses eval", file="scripts/skill.py", line=7, rule="dynamic", severity="high"),
                Finding(message="a link", file="SKILL.md", rule="link", severity="elevated"),
                Finding(message="never called", rule="grant-unused", severity="low"),
            ],
        ),
        GateResult(gate="replay", verdict=Verdict.INCOMPLETE, summary="the sandbox failed", seconds=0.2),
        GateResult(
            gate="tests",
            verdict=Verdict.PASS,
            summary="fine",
            seconds=0.3,
            findings=[Finding(message="x", file="hold-out task 9é", severity="info")],
        ),
    ],
    risk="high",
    isolation=["bubblewrap"],
    tools={"ruff": "1"},
)


def test_every_finding_keeps_its_rule_level_file_and_line():
    log = json.loads(json.dumps(to_sarif(REPORT)))
    assert log["version"] == "2.1.0"
    policy = log["runs"][0]
    assert [result["level"] for result in policy["results"]] == ["error", "warning", "note"]
    first = policy["results"][0]
    assert first["ruleId"] == "policy/dynamic"
    assert policy["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == "policy/dynamic"
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "scripts/skill.py"}, "region": {"startLine": 7}}
    assert "region" not in policy["results"][1]["locations"][0]["physicalLocation"]
    assert "locations" not in policy["results"][2]


def test_a_gate_that_could_not_judge_is_an_unsuccessful_invocation_and_a_rejection_is_not():
    runs = to_sarif(REPORT)["runs"]
    assert isinstance(runs, list)
    told = [(run["properties"]["verdict"], run["invocations"][0]["executionSuccessful"]) for run in runs]  # type: ignore[index,call-overload]
    assert told == [("fail", True), ("incomplete", False), ("pass", True)]


def test_a_place_that_is_no_file_is_still_a_valid_reference():
    run = json.loads(json.dumps(to_sarif(REPORT)))["runs"][2]
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "hold-out%20task%209"
