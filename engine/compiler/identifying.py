"""What identifies people and records in JSON values: by the key it stands under, or by its form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from pydantic import JsonValue

MAX_DEPTH = 12

_PERSONAL = frozenset(
    [
        "email",
        "mail",
        "phone",
        "telephone",
        "mobile",
        "fax",
        "firstname",
        "lastname",
        "surname",
        "fullname",
        "username",
        "address",
        "address1",
        "address2",
        "street",
        "zip",
        "zipcode",
        "postal",
        "postcode",
        "dob",
        "birthdate",
        "birthday",
        "ssn",
        "passport",
    ]
)
_PERSONAL_PAIRS = frozenset(
    {("first", "name"), ("last", "name"), ("full", "name"), ("user", "name"), ("middle", "name")}
)
_OF_BIRTH = frozenset({"dob", "birthdate", "birthday", "birth"})
_PEOPLE = frozenset(
    [
        "user",
        "customer",
        "passenger",
        "person",
        "contact",
        "owner",
        "employee",
        "patient",
        "member",
        "client",
        "guest",
    ]
)
_NUMBERED = frozenset(["id", "ids", "number", "phone", "account", "zip", "code", "card"])
_KEY_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*|\d+")
_EMAIL = re.compile(r"[\w.+\-]{1,64}@[\w\-]+(?:\.[\w\-]+)+")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?")
_ID = re.compile(r"(?=.{4,80}$)#?[A-Za-z0-9](?:[A-Za-z0-9_\-]*[A-Za-z0-9])?")
_CODE = re.compile(r"(?=[A-Z0-9]*\d)(?=[A-Z0-9]*[A-Z])[A-Z0-9]{5,20}")
_PHONE = re.compile(r"\+?[\d\s().\-]{7,20}")
_YEAR = re.compile(r"(19|20)\d\d")


def identifying(value: JsonValue) -> Iterator[tuple[str, bool]]:
    """Every string (and long number) that identifies, and whether it is personal: then its words are names."""
    yield from _of("", value, people=False, depth=0)


def _of(key: str, value: JsonValue, *, people: bool, depth: int) -> Iterator[tuple[str, bool]]:
    if depth > MAX_DEPTH:
        return
    words = [word.lower() for word in _KEY_WORD.findall(key)]
    if isinstance(value, dict):
        about_people = bool({_singular(word) for word in words} & _PEOPLE) or bool(_PERSONAL & set(value))
        for name, item in value.items():
            if is_numbered(name):
                yield name, False
            yield from _of(name, item, people=people or about_people, depth=depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _of(key, item, people=people, depth=depth + 1)
    elif isinstance(value, str) and value:
        personal = _is_personal(words, people=people)
        birth = bool(_OF_BIRTH & set(words))
        if birth or (personal and not DATE.fullmatch(value)):
            yield value, not birth
        elif _EMAIL.fullmatch(value) or (
            _PHONE.fullmatch(value) and sum(map(str.isdigit, value)) >= 7 and not DATE.fullmatch(value)
        ):
            yield value, bool(_EMAIL.fullmatch(value))
        elif is_numbered(value):
            yield value, bool({_singular(word) for word in words} & _PEOPLE)
    elif isinstance(value, int) and not isinstance(value, bool) and len(str(value)) >= 5 and set(words) & _NUMBERED:
        yield str(value), False


def _is_personal(words: Sequence[str], *, people: bool) -> bool:
    pairs = set(pairwise(words))
    return bool(_PERSONAL & set(words) or _PERSONAL_PAIRS & pairs or (people and words == ["name"]))


def is_numbered(text: str) -> bool:
    """Whether a string has the form of an id: no spaces, three digits or more, neither a date nor a plain year."""
    digits = sum(map(str.isdigit, text))
    if _CODE.fullmatch(text):
        return True
    return digits >= 3 and bool(_ID.fullmatch(text)) and not DATE.fullmatch(text) and not _YEAR.fullmatch(text)


def _singular(word: str) -> str:
    return word.removesuffix("s")
