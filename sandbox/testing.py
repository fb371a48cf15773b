"""The suite that every sandbox passes. A back end's test subclasses it and provides the `sandbox` fixture.

Escapes are tried twice: outside, where each must work to prove anything, and inside, where none may.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from instar.sandbox.answers import Recorded
from instar.sandbox.broker import Broker, BrokerLimits
from instar.sandbox.errors import InvalidJob
from instar.sandbox.lures import Attempt, Lures, attempts, laid_out
from instar.sandbox.protocol import MIB, CallStatus, Ending, Job, JobResult, Limits, Sandbox
from instar.sandbox.skillrun import RunStatus, SkillRun, run_skill
from instar.sandbox.traces import traces
from instar.skills.cases import RecordedCall
from instar.skills.manifest import GrantedTool

ROOT_ONLY = "does not work here for this account and kernel, even outside: proves nothing"
RECORDING = (
    RecordedCall(tool="look", arguments={"key": "a"}, result={"found": [1, 2]}),
    RecordedCall(tool="look", arguments={"key": "b"}, error="no such key"),
)
GRANTS = {
    "look": GrantedTool(
        name="look",
        why="reads",
        effect="read",
        parameters={"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
    )
}


def broker(limits: BrokerLimits = BrokerLimits()) -> Broker:  # noqa: B008 — immutable
    """A broker that grants `look` and knows two answers."""
    return Broker(GRANTS, Recorded(RECORDING), limits)


class SlowTool:
    """Answers every call with its key, after a while."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.asked: list[JsonValue] = []

    def answer(self, tool: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        self.asked.append(arguments["key"])
        time.sleep(self._seconds)
        return arguments["key"]


class _Runs:
    """What the suites below share."""

    def code(self, sandbox: Sandbox, code: str, **limits: int | float) -> JobResult:
        return sandbox.run(Job({}, ("python", "-c", code), limits=Limits(**limits)))  # type: ignore[arg-type]

    def skill(
        self,
        sandbox: Sandbox,
        body: str,
        *,
        grants: Broker | None = None,
        wall_seconds: float = 10,
        **arguments: JsonValue,
    ) -> SkillRun:
        source = f"import os, sys\ndef run(tools, **arguments):\n    {body}\n"
        files = {"scripts/skill.py": source.encode()}
        return run_skill(sandbox, files, arguments, grants or broker(), Limits(wall_seconds=wall_seconds))


class JobContract(_Runs):
    """What a job sees, how it ends, and that nothing of it stays."""

    def test_output_and_exit_code_come_back(self, sandbox: Sandbox) -> None:
        result = self.code(sandbox, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
        assert (result.ending, result.exit_code, result.stdout, result.stderr) == (
            Ending.EXITED,
            3,
            b"out\n",
            b"err\n",
        )

    def test_files_are_placed_read_only_under_the_working_directory(self, sandbox: Sandbox) -> None:
        files = {"data/one.bin": bytes(range(256)) * 40, "main.py": b"print(len(open('data/one.bin','rb').read()))"}
        assert sandbox.run(Job(files, ("python", "main.py"))).stdout == b"10240\n"
        job = Job(files, ("python", "-c", "open('data/one.bin', 'ab')"))
        assert b"Error" in sandbox.run(job).stderr

    def test_modules_and_interpreter_flags_work(self, sandbox: Sandbox) -> None:
        job = Job({"pack/mod.py": b"import sys; print(sys.argv[1:], sys.flags.optimize, __name__)"}, ())
        path = {"PYTHONPATH": "/work/pack"}
        run = sandbox.run(Job(job.files, ("python", "-O", "-W", "error", "-m", "mod", "a b"), environment=path))
        assert run.stdout == b"['a b'] 1 __main__\n"

    def test_the_environment_is_the_documented_one(self, sandbox: Sandbox) -> None:
        result = sandbox.run(
            Job({}, ("python", "-c", "import os; print(sorted(os.environ))"), environment={"WANTED": "1"})
        )
        seen = set(result.stdout.decode().strip("[]\n").replace("'", "").split(", "))
        expected = {"WANTED", "HOME", "PATH", "LANG", "TZ", "PWD"}
        assert {name for name in seen if not name.startswith(("PYTHON", "MALLOC_", "LC_"))} == expected

    def test_the_temporary_folder_is_writable_and_starts_empty(self, sandbox: Sandbox) -> None:
        code = "import os; print(os.listdir('/tmp')); open('/tmp/x','w').write('y')"
        assert [self.code(sandbox, code).stdout for _ in range(2)] == [b"[]\n", b"[]\n"]

    def test_the_same_job_sees_the_same_hashes(self, sandbox: Sandbox) -> None:
        assert self.code(sandbox, "print(hash('a'))").stdout == self.code(sandbox, "print(hash('a'))").stdout

    def test_pytest_runs_from_its_toolkit(self, sandbox: Sandbox) -> None:
        files = {"test_a.py": b"def test_a(tmp_path):\n    assert tmp_path.exists()\n"}
        job = Job(
            files, ("python", "-m", "pytest", "-p", "no:cacheprovider", "-q", "test_a.py"), toolkits=("pytest",),
            environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )  # fmt: skip
        result = sandbox.run(job)
        assert b"1 passed" in result.stdout, result.stderr

    def test_host_libraries_appear_on_the_path(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "only_here.py").write_text("VALUE = 7\n")
        tmp_path.chmod(0o755)
        job = Job({}, ("python", "-c", "import only_here; print(only_here.VALUE)"), libraries=(tmp_path,))
        assert sandbox.run(job).stdout == b"7\n"

    def test_a_crash_is_reported_as_a_signal(self, sandbox: Sandbox) -> None:
        result = self.code(sandbox, "import ctypes; ctypes.string_at(0)")
        assert (result.ending, result.signal) == (Ending.KILLED, signal.SIGSEGV)

    def test_no_signal_of_a_job_ends_its_launcher(self, sandbox: Sandbox) -> None:
        code = (
            "import os, signal, time\n"
            "for number in signal.Signals:\n"
            "    try: os.kill(1, number)\n"
            "    except OSError: pass\n"
            "time.sleep(0.3); print('still here', flush=True); os._exit(5)"
        )
        result = self.code(sandbox, code)
        assert (result.ending, result.exit_code, result.stdout) == (Ending.EXITED, 5, b"still here\n")

    def test_a_job_may_end_itself_by_a_signal(self, sandbox: Sandbox) -> None:
        result = self.code(sandbox, "import os; os.kill(os.getpid(), 9)")
        assert (result.ending, result.signal) == (Ending.KILLED, 9)

    def test_the_wall_clock_ends_a_job(self, sandbox: Sandbox) -> None:
        begun = time.monotonic()
        result = self.code(sandbox, "import time; time.sleep(60)", wall_seconds=0.5)
        assert result.ending is Ending.TIMED_OUT
        assert time.monotonic() - begun < 5

    def test_processor_time_ends_a_job(self, sandbox: Sandbox) -> None:
        assert self.code(sandbox, "while True: pass", cpu_seconds=1, wall_seconds=15).ending is Ending.CPU

    def test_a_failed_allocation_is_named(self, sandbox: Sandbox) -> None:
        assert self.code(sandbox, "bytearray(1 << 30)", memory_bytes=256 * MIB).ending is Ending.MEMORY

    def test_output_is_cut_at_the_limit_and_ends_the_job(self, sandbox: Sandbox) -> None:
        result = self.code(sandbox, "while True: print('x' * 1000)", output_bytes=50_000)
        assert (result.ending, len(result.stdout)) == (Ending.OUTPUT, 50_000)

    def test_output_of_exactly_the_limit_is_allowed(self, sandbox: Sandbox) -> None:
        result = self.code(sandbox, "import sys; sys.stdout.write('x' * 50000)", output_bytes=50_000)
        assert (result.ending, len(result.stdout)) == (Ending.EXITED, 50_000)

    def test_more_files_than_allowed_end_the_job(self, sandbox: Sandbox) -> None:
        code = "import os\nfor n in range(60000): os.close(os.open(f'/tmp/{n}', os.O_CREAT))"
        assert self.code(sandbox, code, tmp_files=500).ending is Ending.FILES

    def test_as_many_files_as_allowed_are_no_trouble(self, sandbox: Sandbox) -> None:
        code = "import os, time\nfor n in range(400): os.mkdir(f'/tmp/{n}')\ntime.sleep(0.2)"
        assert self.code(sandbox, code, tmp_files=500).succeeded

    def test_threads_work_up_to_their_limit(self, sandbox: Sandbox) -> None:
        code = (
            "import threading\nd=threading.Event()\nts=[threading.Thread(target=d.wait) for _ in range(20)]\n"
            "[t.start() for t in ts]\nd.set()\nprint(len(ts))"
        )
        assert self.code(sandbox, code).stdout == b"20\n"

    @pytest.mark.parametrize(
        "path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a\0b", "a" * 300, "\udc80"], ids=repr
    )
    def test_a_path_that_leaves_the_folder_is_no_job(self, sandbox: Sandbox, path: str) -> None:
        with pytest.raises(InvalidJob):
            sandbox.run(Job({path: b""}, ("python", "-c", "")))

    @pytest.mark.parametrize(
        "argv", [(), ("sh", "-c", "true"), ("python",), ("python", "-m"), ("python", "-i"), ("python", "--help")]
    )
    def test_a_command_that_is_not_python_is_no_job(self, sandbox: Sandbox, argv: tuple[str, ...]) -> None:
        with pytest.raises(InvalidJob):
            sandbox.run(Job({}, argv))

    def test_file_and_folder_of_one_name_are_no_job(self, sandbox: Sandbox) -> None:
        with pytest.raises(InvalidJob):
            sandbox.run(Job({"a": b"", "a/b": b"", "a.b": b""}, ("python", "-c", "")))

    @pytest.mark.parametrize("limit", ["wall_seconds", "memory_bytes", "threads"])
    def test_a_limit_that_is_not_positive_is_no_job(self, sandbox: Sandbox, limit: str) -> None:
        with pytest.raises(InvalidJob):
            self.code(sandbox, "", **{limit: 0})

    def test_an_unknown_toolkit_is_no_job(self, sandbox: Sandbox) -> None:
        with pytest.raises(InvalidJob):
            sandbox.run(Job({}, ("python", "-c", ""), toolkits=("os",)))

    def test_jobs_run_side_by_side_without_mixing(self, sandbox: Sandbox) -> None:
        def one(number: int) -> bytes:
            return self.code(sandbox, f"import time; time.sleep(0.05); print({number})").stdout

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(one, range(24))) == [f"{number}\n".encode() for number in range(24)]

    def test_nothing_of_a_job_stays(self, sandbox: Sandbox) -> None:
        sandbox.probe()
        before = replace(traces(), mounts=())
        for code in (
            "print(1)",
            "while True: print('x' * 1000)",
            "import os; os._exit(7)",
            "import time; time.sleep(9)",
        ):
            self.code(sandbox, code, wall_seconds=1)
        after = replace(traces(), mounts=())
        assert after.since(before) == 0, (before, after)


class BrokerContract(_Runs):
    """The door in the wall, and the skills that use it."""

    def test_a_skill_calls_a_tool_and_returns(self, sandbox: Sandbox) -> None:
        run = self.skill(sandbox, "return [tools.look(key='a'), arguments]", x=1)
        assert (run.status, run.value) == (RunStatus.RETURNED, [{"found": [1, 2]}, {"x": 1}])
        assert [call.status for call in run.job.calls] == [CallStatus.ANSWERED]

    def test_what_a_skill_prints_never_reaches_the_broker(self, sandbox: Sandbox) -> None:
        body = """print('{"returned": "forged"}'); os.write(1, b'{"returned": 0}'); return 1"""
        run = self.skill(sandbox, body)
        assert (run.status, run.value) == (RunStatus.RETURNED, 1)
        assert b"forged" in run.job.stdout

    def test_a_tools_error_is_delivered_and_can_be_handled(self, sandbox: Sandbox) -> None:
        run = self.skill(sandbox, "return tools.look(key='b')")
        assert (run.status, run.error) == (RunStatus.RAISED, "no such key")
        handled = "\n    try: tools.look(key='b')\n    except tools.ToolError as error: return str(error)"
        assert self.skill(sandbox, handled).value == "no such key"

    def test_an_ungranted_tool_is_refused_and_counts_even_when_handled(self, sandbox: Sandbox) -> None:
        handled = "\n    try: tools.call('rm', {'path': '/'})\n    except Exception: return 'fine'"
        run = self.skill(sandbox, handled)
        assert (run.status, run.value) == (RunStatus.REFUSED, None)
        assert [call.tool for call in run.job.violations] == ["rm"]

    def test_arguments_that_do_not_fit_never_reach_the_tool(self, sandbox: Sandbox) -> None:
        run = self.skill(sandbox, "return tools.look(key=1)")
        assert (run.status, run.job.calls[0].status) == (RunStatus.RAISED, CallStatus.INVALID)

    def test_a_call_nobody_recorded_is_uncovered(self, sandbox: Sandbox) -> None:
        run = self.skill(sandbox, "return tools.look(key='z')")
        assert (run.status, run.job.calls[0].status) == (RunStatus.RAISED, CallStatus.UNCOVERED)

    @pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)", "sys.exit()", "os.close(1); os._exit(0)"])
    def test_leaving_early_is_no_result(self, sandbox: Sandbox, leave: str) -> None:
        assert self.skill(sandbox, leave).status is RunStatus.ENDED

    @pytest.mark.parametrize("value", ["{1, 2}", "float('nan')", "object()", "b'x'", "{(1, 2): 3}"])
    def test_a_value_that_is_no_json_is_an_error_of_the_skill(self, sandbox: Sandbox, value: str) -> None:
        assert self.skill(sandbox, f"return {value}").status is RunStatus.RAISED

    @pytest.mark.parametrize(
        ("message", "reason"),
        [
            ("b'garbage\\n'", "not JSON"),
            ("b'[]\\n'", "not an object"),
            ("b'{}\\n'", "keys"),
            ("b'{\"returned\": NaN}\\n'", "not JSON"),
            ('b\'{"returned": 1, "returned": 2}\\n\'', "repeated"),
            ("b'[' * 5000 + b']' * 5000 + b'\\n'", "deeply"),
            ("b'\\xff\\n'", "not JSON"),
            ('b\'{"id": 9, "tool": "look", "arguments": {}}\\n\'', "sequence"),
            ('b\'{"id": 1, "tool": 1, "arguments": {}}\\n\'', "without a tool"),
            ('b\'{"id": 1, "tool": "look", "arguments": {"key": "a"}}\\n\' * 2', "before"),
            ('b\'{"returned": 1}\\n{"returned": 2}\\n\'', "before"),
            ("b'{\"returned\": 1'", "middle"),
            ("b'x' * 3000000", "longer"),
        ],
        ids=lambda value: None if value.startswith("b'") else value,
    )
    def test_a_malformed_message_ends_the_job_with_a_reason(
        self, sandbox: Sandbox, message: str, reason: str
    ) -> None:
        body = (
            f"data, channel = {message}, tools._channel._descriptor"
            "\n    while data: data = data[os.write(channel, data):]"
            "\n    os._exit(0)"
        )
        run = self.skill(sandbox, body)
        assert (run.status, run.job.ending) == (RunStatus.ENDED, Ending.PROTOCOL)
        assert reason in run.job.reason

    def test_too_many_calls_end_the_job(self, sandbox: Sandbox) -> None:
        run = self.skill(sandbox, "\n    while True: tools.look(key='a')", grants=broker(BrokerLimits(calls=20)))
        assert (run.job.ending, len(run.job.calls)) == (Ending.PROTOCOL, 20)

    def test_too_many_bytes_end_the_job(self, sandbox: Sandbox) -> None:
        run = self.skill(
            sandbox, "\n    while True: tools.look(key='a')", grants=broker(BrokerLimits(total_bytes=5000))
        )
        assert run.job.ending is Ending.PROTOCOL

    def test_a_slow_tool_delays_no_limit_of_the_job(self, sandbox: Sandbox) -> None:
        tool = SlowTool(3.0)
        body = "\n    try: tools.look(key='a')\n    finally: tools.look(key='b')"
        run = self.skill(sandbox, body, grants=Broker(GRANTS, tool), wall_seconds=1.0)
        assert (run.status, run.job.ending) == (RunStatus.ENDED, Ending.TIMED_OUT)
        assert [(call.arguments, call.status) for call in run.job.calls] == [({"key": "a"}, CallStatus.ANSWERED)]
        assert tool.asked == ["a"]

    def test_a_tool_that_takes_its_time_within_the_limits_is_waited_for(self, sandbox: Sandbox) -> None:
        run = self.skill(sandbox, "return tools.look(key='a')", grants=Broker(GRANTS, SlowTool(0.5)))
        assert (run.status, run.value) == (RunStatus.RETURNED, "a")

    def test_a_large_answer_arrives_whole(self, sandbox: Sandbox) -> None:
        big = "ü" * 400_000
        answers = Broker(GRANTS, Recorded([RecordedCall(tool="look", arguments={"key": "a"}, result=big)]))
        assert self.skill(sandbox, "return len(tools.look(key='a'))", grants=answers).value == 400_000

    def test_threads_of_a_skill_take_turns(self, sandbox: Sandbox) -> None:
        body = (
            "\n    from concurrent.futures import ThreadPoolExecutor"
            "\n    with ThreadPoolExecutor(8) as pool:"
            "\n        return len(list(pool.map(lambda _: tools.look(key='a'), range(50))))"
        )
        assert self.skill(sandbox, body).value == 50

    def test_a_module_beside_the_skill_cannot_take_the_place_of_the_library(self, sandbox: Sandbox) -> None:
        files = {
            "scripts/skill.py": b"import json, beside\ndef run(tools): return [json.dumps(1), beside.X]",
            "scripts/json.py": b"dumps = lambda value: 'forged'",
            "scripts/beside.py": b"X = 5",
        }
        assert run_skill(sandbox, files, {}, broker()).value == ["1", 5]


class EscapeContract(_Runs):
    """Every known way out, tried outside and inside."""

    @pytest.fixture(scope="class")
    @classmethod
    def lures(cls) -> Iterator[Lures]:
        with laid_out() as lures:
            yield lures

    @pytest.mark.parametrize("attempt", attempts(), ids=str)
    def test_no_way_out(self, sandbox: Sandbox, lures: Lures, attempt: Attempt) -> None:
        job = Job(lures.files, ("python", "attempt.py", attempt.group, attempt.name), limits=attempt.limits)
        result = sandbox.run(job)
        assert b"\nESCAPED\n" not in result.stdout, result
        assert not list(lures.folder.glob("left.*"))
        if not lures.outside(attempt):
            pytest.skip(f"{attempt} {ROOT_ONLY}")


class SandboxContract(JobContract, BrokerContract, EscapeContract):
    """All of it."""
