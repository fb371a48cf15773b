import ast
import time

import pytest

from instar.sandbox.gates.candidate import read_candidate
from instar.sandbox.gates.judgement import Judgement
from instar.sandbox.gates.mutants import handler_probes, mutants
from instar.sandbox.gates.regression import contains, regression
from instar.sandbox.gates.strength import MAX_MUTANTS, strength
from instar.sandbox.gates.testing import CASES, CODE, INPUT, TOOLS, draft, tool
from instar.sandbox.report import Verdict
from instar.skills.cases import Case, RecordedCall
from instar.skills.package import Package

NOTHING = 'def run(tools, *, user_id: str, limit: int | None = None) -> None:\n    """Do nothing."""\n'


def judge(sandbox, files: dict[str, str]) -> Judgement:
    return strength(read_candidate(Package(files)), sandbox)


def test_cases_that_notice_every_fault_pass(sandbox):
    judgement = judge(sandbox, draft())
    assert judgement.verdict is Verdict.PASS
    assert judgement.counts["mutants"] >= 15
    assert judgement.counts["killed"] == judgement.counts["mutants"]


def test_a_case_that_shows_little_fails_and_the_survivors_are_shown_as_code(sandbox):
    judgement = judge(sandbox, draft(cases=[CASES[1]]))
    assert judgement.verdict is Verdict.FAIL
    shown = " ".join(finding.message for finding in judgement.findings)
    assert "order['status'] == 'delivered'" in shown
    assert all(finding.line > 0 for finding in judgement.findings)


def test_code_that_does_nothing_and_cases_that_expect_nothing_fail(sandbox):
    files = draft(NOTHING, cases=[CASES[0].model_copy(update={"returns": None})], output_schema={})
    assert judge(sandbox, files).verdict is Verdict.FAIL


def test_answers_that_ignore_the_tools_fail(sandbox):
    answers = {case.arguments["user_id"]: case.returns for case in CASES[:3]}
    code = (
        f"ANSWERS = {answers!r}\n\n\ndef run(tools, *, user_id, limit=None):\n"
        "    tools.get_user(user_id=user_id)\n    return ANSWERS[user_id]\n"
    )
    judgement = judge(sandbox, draft(code, cases=CASES[:3]))
    assert judgement.verdict is Verdict.FAIL
    assert "does not depend" in judgement.summary


def test_an_answer_whose_last_part_does_not_matter_still_counts_as_used(sandbox):
    code = (
        "def run(tools, *, user_id, limit=None):\n"
        '    found = tools.call("get_user", {"user_id": user_id})\n'
        '    return found["page"].split(";")[0]\n'
    )
    calls = [RecordedCall(tool="get_user", arguments={"user_id": "u"}, result={"page": "name;rest", "type": "text"})]
    case = Case(name="a", arguments={"user_id": "u"}, calls=calls, returns="name")
    files = draft(code, cases=[case], tools=[tool("get_user")], output_schema={})
    assert judge(sandbox, files).verdict is Verdict.PASS


def test_a_skill_that_writes_may_ignore_the_answer(sandbox):
    code = (
        'def run(tools, *, user_id, limit=None):\n    tools.cancel(user_id=user_id, limit=limit)\n    return "done"\n'
    )
    calls = [RecordedCall(tool="cancel", arguments={"user_id": "u", "limit": None}, result={"ok": True})]
    case = Case(name="a", arguments={"user_id": "u"}, calls=calls, returns="done")
    files = draft(code, cases=[case], tools=[tool("cancel", "write")], side_effects="writes", output_schema={})
    assert judge(sandbox, files).verdict is Verdict.PASS


def test_an_error_path_that_no_recording_reaches_is_named_and_not_held_against_the_cases(sandbox):
    handler = '    except tools.ToolError as error:\n        return {"problem": str(error), "code": 7}\n'
    guarded = CODE.replace("    user = tools.call", "    try:\n        user = tools.call")
    guarded = guarded.replace("id})\n    orders", f"id}})\n{handler}    orders")
    judgement = judge(sandbox, draft(guarded, cases=CASES[:3]))
    assert judgement.verdict is Verdict.PASS
    assert judgement.counts["unreached"] == 1
    assert [finding.rule for finding in judgement.findings] == ["unreached"]


def test_a_fault_that_loops_for_ever_counts_as_noticed(sandbox, no_process_left):
    code = (
        "def run(tools, *, user_id, limit=None):\n    n = 0\n    while n < 3:\n        n = n + 1\n"
        "    return [tools.get_user(user_id=user_id), n]\n"
    )
    call = RecordedCall(tool="get_user", arguments={"user_id": "u"}, result=1)
    case = Case(name="a", arguments={"user_id": "u"}, calls=[call], returns=[1, 3])
    judgement = judge(sandbox, draft(code, cases=[case], tools=[TOOLS[0]], output_schema={}))
    assert judgement.verdict is Verdict.PASS


def test_code_that_fails_its_own_cases_is_left_to_replay(sandbox):
    judgement = judge(sandbox, draft(CODE.replace('"open": open_orders(orders)', '"open": -1')))
    assert judgement.verdict is Verdict.INCOMPLETE
    assert "own cases" in judgement.summary


def test_code_that_cannot_be_parsed_is_incomplete(sandbox):
    assert judge(sandbox, draft("def run(\n")).verdict is Verdict.INCOMPLETE


def test_mutants_are_the_same_every_time_bounded_and_all_different():
    tree = ast.parse(CODE)
    one, two = mutants(tree, MAX_MUTANTS), mutants(ast.parse(CODE), MAX_MUTANTS)
    assert one == two
    assert len({mutant.source for mutant in one}) == len(one)
    assert mutants(tree, 3) == one[:3]
    assert {"loop", "condition", "comparison", "constant", "dropped", "return", "swapped"} <= {
        mutant.kind for mutant in one
    }
    assert ast.dump(tree) == ast.dump(ast.parse(CODE)), "the original is left alone"


def test_documentation_annotations_imports_and_the_notice_are_left_alone():
    code = (
        '"""Doc."""\n\nimport re\n\n\ndef run(tools, *, a: "int" = None) -> "dict":\n    """Doc."""\n'
        '\n\nif __name__ == "__main__":\n    raise SystemExit("x")\n'
    )
    assert mutants(ast.parse(code), MAX_MUTANTS) == []
    assert handler_probes(ast.parse(code)) == []


def test_the_choice_of_mutants_in_a_large_file_takes_a_moment():
    body = "\n".join(f'    x{number} = a + {number} if a > {number} else "{number}"' for number in range(1000))
    started = time.process_time()
    found = mutants(ast.parse(f"def run(tools, *, a):\n{body}\n    return x1\n"), MAX_MUTANTS)
    assert len(found) == MAX_MUTANTS
    assert time.process_time() - started < 15.0


def earlier(sandbox, files: dict[str, str], cases: list[Case]) -> Judgement:
    return regression(read_candidate(Package(files)), cases, sandbox)


def test_the_cases_of_the_version_before_still_come_out(sandbox):
    assert earlier(sandbox, draft(version="0.2.0"), list(CASES)).verdict is Verdict.PASS
    assert earlier(sandbox, draft(), []).verdict is Verdict.PASS


def test_more_than_before_is_no_regression(sandbox):
    more = CODE.replace('"open": open_orders(orders)', '"open": open_orders(orders), "number": len(orders)')
    assert earlier(sandbox, draft(more), list(CASES)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "code",
    [
        CODE.replace('"open": open_orders(orders)', '"count": open_orders(orders)'),
        CODE.replace("sum(1 for", "sum(1.0 for"),
        CODE.replace("user_id: str, limit", "user_id: str, region: str, limit"),
    ],
)
def test_less_another_value_or_another_input_is_a_regression(sandbox, code):
    judgement = earlier(sandbox, draft(code), list(CASES))
    assert judgement.verdict is Verdict.FAIL
    assert judgement.findings


def test_earlier_cases_that_need_unrecorded_calls_are_counted_and_alone_decide_nothing(sandbox):
    asks_more = CODE.replace("    orders = [", '    tools.get_order(order_id="#0")\n    orders = [')
    judgement = earlier(sandbox, draft(asks_more), list(CASES[:3]))
    assert judgement.verdict is Verdict.INCOMPLETE
    assert judgement.counts["uncovered"] == 3
    assert earlier(sandbox, draft(asks_more), list(CASES)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("new", "old", "held"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [1], False),
        (1, True, False),
        (1, 1.0, False),
        (None, {}, False),
    ],
)
def test_a_value_holds_another(new, old, held):
    assert contains(new, old) is held


def test_the_sample_schema_names_its_inputs():
    assert INPUT["required"] == ["user_id"]
