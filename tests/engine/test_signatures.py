"""One cause, one signature; what varies is blanked."""

from __future__ import annotations

import time

import pytest

from instar.engine.compiler.signatures import LENGTH, message_of, names_in, signature_of


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("Error: order not found", "order not found"),
        ("<tool_use_error>File does not exist.</tool_use_error>", "File does not exist."),
        ("Error: total price is 1,002.50, but paid 957", "total price is <n>, but paid <n>"),
        ("Error: payment method card_771 not found", "payment method <id> not found"),
        ("no user with ada@example.org", "no user with <email>"),
        ("cannot open /srv/data/a.txt", "cannot open <path>"),
        ("Unknown column 'price' in \"orders\"", "Unknown column <text> in <text>"),
        ("bash: line 1: xxd: command not found", "<text>: command not found"),
        ("/opt/bin/python: No module named pytest", "No module named <text>"),
        (
            'Traceback (most recent call last):\n  File "a.py", line 1\nModuleNotFoundError: No module named \'x.y\'',
            "No module named <text>",
        ),
        ("2 validation errors for Payment\namount\n  Field required [type=missing, input_value={'a': 1}]\nid\n  x",
         "validation error for Payment: amount: Field required"),
        ('Invalid arguments for f: [\n {"code": "x", "path": ["size"], "message": "Expected number"}]',
         "Invalid arguments for f: size: Expected number"),
        ("Exit code 1\n[lint] $ golangci-lint run\nmain.go:3:4: error: unused", "<path>:<n>:<n>: error: unused"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_varies_is_blanked(error: str, expected: str) -> None:
    assert signature_of(error) == expected


def test_a_value_of_the_call_is_blanked_by_its_name() -> None:
    assert signature_of("User Sofia Kim not found", {"user": "Sofia Kim"}) == "User <user> not found"
    assert signature_of("does not add up", {"insurance": "no"}) == "does not add up"


def test_the_names_an_error_gives_are_read_from_it() -> None:
    assert names_in("Input should be 'a' or 'b'") == ["a", "b"]
    assert names_in("bash: rg: command not found") == ["rg"]


@pytest.mark.parametrize("text", ["a" * 500_000, "'" * 100_000, "a-" * 100_000, '[{"' * 50_000, "1" * 100_000])
def test_hostile_text_costs_little(text: str) -> None:
    started = time.perf_counter()
    assert len(signature_of(text)) <= LENGTH
    message_of(text)
    assert time.perf_counter() - started < 0.5
