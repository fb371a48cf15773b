"""Shell scripts taken apart, as bash would."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.sandbox.gates.shell import MAX_DEPTH, parse_shell, settled
from instar.sandbox.gates.shellwords import ShellSyntaxError

BASH = shutil.which("bash")


def commands(text: str) -> list[list[str]]:
    return [[word.text for word in command.words] for command in parse_shell(text).commands if command.words]


@pytest.mark.parametrize(
    "text",
    [
        "run x",
        "a=1 run x",
        ">out run x",
        "true; run x",
        "true && run x",
        "true || run x",
        "true | run x",
        "true & run x",
        "! run x",
        "(run x)",
        "{ run x; }",
        "if run x; then true; fi",
        "if true; then run x; elif true; then true; else true; fi",
        "while run x; do true; done",
        "for i in 1 2; do run x; done",
        "for ((i = 0; i < 3; i++)); do run x; done",
        "case a in a | b) run x ;; *) true ;; esac",
        "case a in (a) true ;; b) run x ;& esac",
        "f() { run x; }",
        "function f { run x; }",
        "function f() { run x; }",
        'echo "$(run x)"',
        "echo `run x`",
        'echo "${v:-$(run x)}"',
        "echo $(( $(run x) + 1 ))",
        "(( $(run x) ))",
        "[[ -n $(run x) && a == b ]]",
        "v=$(run x)",
        "v=(a $(run x) b)",
        "cat <(run x)",
        "cat <<EOF\n$(run x)\nEOF",
        "cat <<-EOF\n\t$(run x)\n\tEOF\n",
        'cat <<< "$(run x)"',
        "true # no command\nrun x",
        "true \\\n; run \\\n x",
        "echo $(echo $(run x))",
        "echo `echo \\`run x\\``",
        'r"u"n x',
        "r\\un x",
    ],
)
def test_a_command_is_seen_wherever_it_stands(text):
    assert ["run", "x"] in commands(text)


@pytest.mark.parametrize(
    "text",
    [
        "# run x",
        "echo 'run x'",
        'echo "run x"',
        "echo '$(run x)'",
        "cat <<'EOF'\n$(run x)\nEOF",
        "cat <<EOF\nrun x\nEOF",
        "echo a#b; echo run x",
    ],
)
def test_what_is_only_text_is_no_command(text):
    assert ["run", "x"] not in commands(text)


def test_a_here_document_goes_to_the_command_that_asked_for_it():
    script = parse_shell("cat <<A | sort <<B\none\nA\ntwo\nB\ntrue\n")
    texts = {command.words[0].text: [found.target.text for found in command.redirects] for command in script.commands}
    assert texts == {"cat": ["one"], "sort": ["two"], "true": []}


def test_lines_are_those_of_the_file():
    script = parse_shell("true\n\nif true; then\n  run \\\n    x\nfi\ncat <<E\na\nE\nlast\n", line=10)
    assert {command.words[0].text: command.line for command in script.commands} == {
        "true": 12,
        "run": 13,
        "cat": 16,
        "last": 19,
    }


@pytest.mark.parametrize(
    "text",
    [
        "echo 'half",
        'echo "half',
        "echo $(ls",
        "echo ${v",
        "echo `ls",
        "cat <<EOF\nnever\n",
        "(true",
        "true)",
        "case a in a) true",
        "echo " + "$(" * (MAX_DEPTH + 5) + "ls" + ")" * (MAX_DEPTH + 5),
    ],
)
def test_what_cannot_be_followed_is_an_error_and_no_guess(text):
    with pytest.raises(ShellSyntaxError):
        parse_shell(text)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("tool=ls\n$tool\n", {"tool"}),
        ("tool=ls\ntool=id\n$tool\n", set()),
        ("tool=ls\nread -r tool\n$tool\n", set()),
        ("tool=ls\nprintf -v tool id\n$tool\n", set()),
        ('tool=ls\nread -r "$name"\n$tool\n', set()),
        ("tool=ls\n. ./other.sh\n$tool\n", set()),
        ("tool=ls\n: ${tool:=id}\n$tool\n", set()),
        ("tool=ls\nfor tool in id; do $tool; done\n", set()),
        ("tool=ls\n(( tool = 1 ))\n$tool\n", set()),
    ],
)
def test_a_variable_is_known_only_when_nothing_else_can_set_it(text, known):
    assert {name for name, _ in settled(text, parse_shell(text))} == known


@given(st.text(alphabet="ab \n'\"\\$(){}`;|&<>#=*[]", max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        parse_shell(text)
    except ShellSyntaxError as error:
        assert str(error)


@pytest.mark.skipif(BASH is None, reason="bash is not installed: nothing to compare with")
@given(st.text(alphabet="ab \"'\\$x{}", min_size=1, max_size=14))
def test_words_are_those_that_bash_reads(text):
    """Where bash expands the text to words, the reader without expansions says the same."""
    script = "x=; set -f; printf '%s\\0' " + text
    done = subprocess.run([BASH, "-c", script], capture_output=True, check=False, env={"PATH": ""}, timeout=20)
    try:
        read = parse_shell("printf " + text).commands[-1].words[1:]
    except ShellSyntaxError:
        return  # refused: never taken for safe
    if done.returncode == 0 and all(word.literal for word in read):
        assert [word.text for word in read] == (done.stdout.decode().split("\0")[:-1] if read else [])
