"""Secrets of known shapes are replaced; ordinary ids and data are left alone."""

import gzip
import json
import os
import tarfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.memstore.redaction import PatternRedactor, default_redactor, redact, redact_fields

DATA = Path(os.environ.get("INSTAR_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the recorded sessions (INSTAR_DATA) are not on this machine"
)

ALNUM = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2"
HEX = "0123456789abcdef" * 4
# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "github": "ghp_" + ALNUM[:36],
    "github-fine": "github_pat_" + ALNUM[:40],
    "gitlab": "glpat-" + ALNUM[:20],
    "slack": "xoxb-" + "123456789012-" + ALNUM[:24],
    "stripe": "sk_live_" + ALNUM[:24],
    "openai": "sk-proj-" + ALNUM,
    "openai-old": "sk-" + ALNUM[:48],
    "anthropic": "sk-ant-api03-" + ALNUM,
    "google": "AIza" + ALNUM[:35],
    "google-oauth": "ya29." + ALNUM,
    "aws-id": "AKIA" + "ABCDEFGH12345678",
    "npm": "npm_" + ALNUM[:36],
    "pypi": "pypi-AgEIcHlwaS5vcmc" + ALNUM * 2,
    "sendgrid": "SG." + ALNUM[:22] + "." + ALNUM[:43],
    "twilio": "SK" + HEX[:32],
    "mailchimp": HEX[:32] + "-us12",
    "telegram": "123456789:AA" + ALNUM[:33],
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + "." + ALNUM,
    "huggingface": "hf_" + "abcdefghijKLMNOPQRSTuvwxyzABCDEFGH",
    "digitalocean": "dop_v1_" + HEX,
    "azure": "AccountKey=" + "A" * 86 + "==",
    "square": "sq0csp-" + ALNUM[:43],
}
AROUND = {
    "bearer": ("Authorization: Bearer ", ALNUM, "\n"),
    "basic": ("authorization: Basic ", "dXNlcjpodW50ZXIyIQ==", ""),
    "url": ("postgresql://user:", "s3cr-t", "@host/db"),
    "assignment": ('password = "', "correct-horse", '"'),
    "json-in-text": ('{\\"api_key\\": \\"', "zq81kd0s", '\\"}'),
    "yaml": ("client_secret: ", "abc123def456", "\n"),
    "env": ("DB_PASSWORD=", "hunter2hunter2", " make"),
    "flag": ("tool --token ", "abc123def456", " run"),
    "aws-key": ("aws_secret_access_key = ", ALNUM[:40], "\n"),
    "npmrc": ("//registry.example/:_authToken=", "abc-123-def", "\n"),
}
ORDINARY = [
    "order #W6779827, user mia_garcia_4516, payment credit_card_3124723",
    '{"next_page_token": "CAUQAA", "max_tokens": 4096, "token_count": 12}',
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 and 550e8400-e29b-41d4-a716-446655440000",
    "api_key = os.environ['API_KEY']; password = getpass(); token: str",
    "set password: <your-password> or api_key=${API_KEY}; token: None",
    "https://example.com:8080/path?x=1@2 and mail someone@example.com",
    "the secret: always answer; my key: C major",
    "def tokenize(token: Token) -> list[str]: return self.token.split()",
    "sk-learn, task-list, desk-top, risk-averse",
    "sha256:" + HEX,
    "密码错误，请重试。token 数量：12",
]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
@pytest.mark.parametrize("around", ["{}", "see {} here", '"{}"', "a={}\n", "x: {},", "漢{}漢"])
def test_a_known_secret_is_replaced_and_the_rest_is_kept(secret: str, around: str) -> None:
    redacted = redact(around.format(secret))
    assert secret not in redacted.text
    assert redacted.text.startswith(around.split("{}", maxsplit=1)[0])
    assert redacted.text.endswith(around.split("{}")[1])
    assert len(redacted.findings) == 1
    assert secret not in repr(redacted.findings)


@pytest.mark.parametrize(("before", "secret", "after"), AROUND.values(), ids=AROUND.keys())
def test_a_secret_that_is_known_by_what_stands_around_it_is_replaced(before: str, secret: str, after: str) -> None:
    redacted = redact(before + secret + after)
    assert secret not in redacted.text
    assert redacted.text.startswith(before)
    assert redacted.text.endswith(after)


def test_what_follows_a_private_key_without_an_end_does_not_hide_it() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA" * 8
    for text in (key, key + "\n" + "and so on " * 3_000):
        assert "MIIEow" not in redact(text).text
    clean, findings = redact_fields(default_redactor(), {"key file": key, "notes": "and so on " * 3_000}, "p")
    assert "MIIEow" not in str(clean)
    assert [finding.kind for finding in findings] == ["private-key"]


def test_a_private_key_is_replaced_as_a_whole_also_when_its_end_is_cut_off() -> None:
    block = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEow\n" * 30 + "-----END RSA PRIVATE KEY-----"
    assert redact(f"key:\n{block}\nend").text == "key:\n[REDACTED:private-key]\nend"
    assert "MIIEow" not in redact(block[:150]).text


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text).text == text


def test_fields_that_are_secret_by_their_name_are_replaced_and_placeholders_are_not() -> None:
    fields = {
        "user": {"password": "hunter2!", "api-key": "k1k2k3k4", "name": "password"},
        "schema": {"password": {"type": "string"}, "token": "string", "secret": "", "api_key": None},
    }
    clean, findings = redact_fields(default_redactor(), fields, "p")
    assert clean["user"] == {"password": "[REDACTED:field]", "api-key": "[REDACTED:field]", "name": "password"}
    assert clean["schema"] == fields["schema"]
    assert [finding.place for finding in findings] == ["p.user.password", "p.user.api-key"]


def test_two_field_names_that_differ_only_in_their_secret_stay_two_fields() -> None:
    first, second = "ghp_" + ALNUM[:36], "ghp_" + ALNUM[1:37]
    clean, _ = redact_fields(default_redactor(), {first: 1, second: 2}, "p")
    assert sorted(clean.values()) == [1, 2]  # type: ignore[type-var]
    assert first not in repr(clean)


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [*SECRETS.values(), *ORDINARY, *(before + secret for before, secret, _ in AROUND.values())]
            ),
            st.text(max_size=30),
        ),
        max_size=6,
    ),
    st.sampled_from(["", " ", "\n", '"', "=", "İ"]),
)
def test_redacting_twice_is_redacting_once_and_the_quick_look_never_misses(parts: list[str], between: str) -> None:
    text = between.join(parts)
    once = redact(text)
    assert redact(once.text).text == once.text
    assert default_redactor().suspicious(text) == (once.text != text)


class Always:
    """Looks at nothing and rules out nothing."""

    def __init__(self, expressions: Iterable[str]) -> None:
        assert list(expressions)

    def may_hold(self, text: str) -> bool:
        return True


THOROUGH = PatternRedactor(look=Always)


@pytest.mark.parametrize("secret", [*SECRETS.values(), *map("".join, AROUND.values())])
@pytest.mark.parametrize("around", ["{}", "é {} é", "\ud800 {}", "KEY İ {}", "x\n{}\n"])
def test_the_quick_look_overlooks_nothing(secret: str, around: str) -> None:
    text = around.format(secret)
    found = THOROUGH.redact(text)
    assert found.findings
    assert default_redactor().redact(text) == found


@given(st.text(alphabet=st.sampled_from("sk-_.:/=eyJghAKIApwd K\u212aİſé1\ud800"), max_size=60))
def test_the_quick_look_changes_no_finding(text: str) -> None:
    assert default_redactor().redact(text) == THOROUGH.redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "eyJ" * 200_000,
        "sk-" * 200_000,
        "://a:" * 100_000,
        "password=" * 60_000,
        "-----BEGIN " * 50_000,
        "_" * 600_000,
        "a." * 300_000,
        "authorization: " * 40_000,
        "bearer " * 90_000,
        "aws" * 200_000,
        "0" * 600_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_costs_linear_time(text: str) -> None:
    start = time.process_time()
    redact(text)
    assert time.process_time() - start < 5


def texts(root: Path) -> Iterator[dict[str, object]]:
    """Every message, result and argument of the recorded sessions that must not change."""
    sources = [root / "tau-bench" / "gpt-4o-airline.json.gz", root / "agentrx" / "tau_retail.json.gz"]
    for source in sources:
        with gzip.open(source, "rt", encoding="utf-8") as file:
            for session in json.load(file):
                yield {"session": session}
    for archive in sorted((root / "general-agentbench").glob("tau2_*.tar.gz")):
        with tarfile.open(archive) as files:
            for member in files:
                file = files.extractfile(member) if member.name.endswith(".json") else None
                if file is not None:
                    yield {"session": json.load(file)}


@needs_data
def test_recorded_customer_service_sessions_are_left_alone() -> None:
    redactor = PatternRedactor()
    sessions = 0
    for fields in texts(DATA):
        clean, findings = redact_fields(redactor, fields, "s")  # type: ignore[arg-type]
        assert findings == []
        assert clean == fields
        sessions += 1
    assert sessions >= 500


@needs_data
def test_the_quick_look_changes_no_finding_in_recorded_coding_sessions() -> None:
    kinds: set[str] = set()
    with tarfile.open(DATA / "claude-code" / "sessions.tar.gz") as files:
        for member in [member for member in files if member.name.endswith(".jsonl")][:16]:
            file = files.extractfile(member)
            assert file is not None
            for line in file.read(400_000).decode(errors="replace").splitlines():
                found = THOROUGH.redact(line)
                assert default_redactor().redact(line) == found
                kinds |= {finding.kind for finding in found.findings}
    assert kinds
