"""Reads filters out of a query: "the budget the user mentioned last week" is about a budget, a speaker and a week.

Rules for English, Chinese and Japanese. What a rule took is cut out of the text, since the words of a time or a
speaker are not what the page is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from instar.memstore.pages import State
from instar.memstore.recall.answers import Filters

_DAY = timedelta(days=1)
Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A query as filters and text, with what was read out of it in words."""

    text: str
    filters: Filters
    rules: tuple[str, ...] = ()


Rewriter = Callable[[str, Filters, datetime], Rewritten]
"""A model may take the place of `rewrite`; what it returns is treated the same."""

_UNITS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": _DAY,
    "week": 7 * _DAY,
    "month": 30 * _DAY,
    "year": 365 * _DAY,
}
_CJK_UNITS = {
    "分钟": "minute",
    "分": "minute",
    "小时": "hour",
    "時間": "hour",
    "天": "day",
    "日": "day",
    "周": "week",
    "星期": "week",
    "週間": "week",
    "个月": "month",
    "か月": "month",
    "ヶ月": "month",
    "年": "year",
}
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7} | {
    letter: value for value, letter in enumerate("一二三四五六七八九十", start=1)
}
_COUNT = r"(\d{1,4}|an?|one|two|three|four|five|six|seven)"
_CJK_COUNT = "([0-9]{1,4}|[一二三四五六七八九十])"


def rewrite(query: str, filters: Filters, now: datetime) -> Rewritten:
    """Apply the rules; a filter that the caller gave is never changed."""
    found = _Reading(query, filters, now)
    found.time()
    found.properties()
    found.speaker()
    text = re.sub(r"\s+", " ", found.text).strip(" ,.;:?!。、，？！の的")
    return Rewritten(text or query, found.filters, tuple(found.rules)) if found.rules else Rewritten(query, filters)


class _Reading:
    def __init__(self, text: str, filters: Filters, now: datetime) -> None:
        self.text, self.filters, self.now = text, filters, now
        self.rules: list[str] = []

    def time(self) -> None:
        if self.filters.since is not None or self.filters.until is not None:
            return
        for pattern, span_of in _TIMES:
            if match := pattern.search(self.text):
                try:
                    span = span_of(match, self.now)
                except OverflowError:  # before all calendars: not a time
                    continue
                self.filters = replace(self.filters, since=span[0], until=span[1])
                self._took(match, f"between {span[0]:%Y-%m-%d %H:%M} and {span[1]:%Y-%m-%d %H:%M}")
                return

    def properties(self) -> None:
        """`kind:memory`, `tool:get_order`, `session:…`, `tag:…`, and failed calls."""
        for name in ("kind", "tool", "session"):
            if match := re.search(rf"(?<!\S){name}:([\w.@+=~-]{{1,200}})", self.text):
                self.filters = _with(self.filters, name, match.group(1))
                self._took(match, f"{name} {match.group(1)}")
        while match := re.search(r"(?<!\S)tag:(\S{1,200})", self.text):
            self.filters = replace(self.filters, tags=(*self.filters.tags, match.group(1)))
            self._took(match, f"tag {match.group(1)}")
        if self.filters.state is None and (match := _FAILED.search(self.text)):
            self.filters = replace(self.filters, state=State.ERROR)
            self._took(match, "state error")

    def speaker(self) -> None:
        if self.filters.speaker is not None:
            return
        for pattern, speaker in _SPEAKERS:
            if match := pattern.search(self.text):
                self.filters = replace(self.filters, speaker=speaker)
                self._took(match, f"said by the {speaker}")
                return

    def _took(self, match: re.Match[str], said: str) -> None:
        self.text = f"{self.text[: match.start()]} {self.text[match.end() :]}"
        self.rules.append(said)


def _with(filters: Filters, name: str, value: str) -> Filters:
    match name:
        case "kind" if filters.kind is None:
            return replace(filters, kind=value)
        case "tool" if filters.tool is None:
            return replace(filters, tool=value)
        case "session" if filters.session is None:
            return replace(filters, session=value)
    return filters


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _days(first: int, last: int) -> Callable[[re.Match[str], datetime], Span]:
    """From so many days before today to so many, both whole."""
    return lambda _, now: (_midnight(now) - first * _DAY, _midnight(now) - (last - 1) * _DAY)


def _week(back: int) -> Callable[[re.Match[str], datetime], Span]:
    """A week from Monday on. People also call the last seven days the last week, so that reaches to now."""

    def span(_: re.Match[str], now: datetime) -> Span:
        monday = _midnight(now) - now.weekday() * _DAY
        return (monday - back * 7 * _DAY, monday + 7 * _DAY if back == 0 else now)

    return span


def _month(back: int) -> Callable[[re.Match[str], datetime], Span]:
    def span(_: re.Match[str], now: datetime) -> Span:
        first = _midnight(now).replace(day=1)
        before = (first - _DAY).replace(day=1)
        return (before, first) if back else (first, now + _DAY)

    return span


def _year(back: int) -> Callable[[re.Match[str], datetime], Span]:
    def span(_: re.Match[str], now: datetime) -> Span:
        first = _midnight(now).replace(month=1, day=1)
        return (first.replace(year=first.year - back), first if back else now + _DAY)

    return span


def _ago(match: re.Match[str], now: datetime) -> Span:
    """Around so long ago: the precision is the unit that was named."""
    unit = _unit(match.group(2))
    middle = now - _number(match.group(1)) * unit
    if unit < _DAY:
        return (middle - unit, middle + unit)
    return (_midnight(middle) - (unit - _DAY) / 2, _midnight(middle) + _DAY + (unit - _DAY) / 2)


def _within(match: re.Match[str], now: datetime) -> Span:
    return (now - _number(match.group(1)) * _unit(match.group(2)), now + timedelta(minutes=1))


def _number(text: str) -> int:
    return _NUMBERS.get(text.lower()) or int(text)


def _unit(text: str) -> timedelta:
    return _UNITS[_CJK_UNITS.get(text, text.lower().rstrip("s"))]


def _on(match: re.Match[str], now: datetime) -> Span:
    try:
        day = now.replace(
            year=int(match[1]), month=int(match[2]), day=int(match[3]), hour=0, minute=0, second=0, microsecond=0
        )
    except ValueError:  # no such day: no such page
        return (now, now)
    return (day, day + _DAY)


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:from |in |on |during |over )?(?:the )?(?:{pattern})\b", re.IGNORECASE)


_ENGLISH_UNIT = "(minutes?|hours?|days?|weeks?|months?|years?)"
_CJK_UNIT = f"({'|'.join(sorted(_CJK_UNITS, key=len, reverse=True))})"
_TIMES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], Span]], ...] = (
    (_words(r"(\d{4})-(\d{1,2})-(\d{1,2})"), _on),
    (re.compile(r"(\d{4})年(\d{1,2})月(\d{1,2})日"), _on),
    (_words(rf"(?:last|past|previous) {_COUNT} {_ENGLISH_UNIT}"), _within),
    (re.compile(f"(?:最近|过去|過去){_CJK_COUNT}{_CJK_UNIT}(?:间|間|内)?"), _within),
    (_words(rf"{_COUNT} {_ENGLISH_UNIT} ago"), _ago),
    (re.compile(f"{_CJK_COUNT}{_CJK_UNIT}(?:之?前|以前)"), _ago),
    (_words("day before yesterday"), _days(2, 2)),
    (re.compile("前天|一昨日|おととい"), _days(2, 2)),
    (_words("yesterday"), _days(1, 1)),
    (re.compile("昨天|昨日|きのう"), _days(1, 1)),
    (_words("today"), _days(0, 0)),
    (re.compile("今天|今日|きょう"), _days(0, 0)),
    (_words("(?:last|past|previous) week"), _week(1)),
    (re.compile("上周|上星期|上个星期|先週"), _week(1)),
    (_words("this week"), _week(0)),
    (re.compile("这周|本周|这个星期|今週"), _week(0)),
    (_words("(?:last|past|previous) month"), _month(1)),
    (re.compile("上个月|上月|先月"), _month(1)),
    (_words("this month"), _month(0)),
    (re.compile("这个月|本月|今月"), _month(0)),
    (_words("(?:last|past|previous) year"), _year(1)),
    (re.compile("去年|昨年"), _year(1)),
    (_words("recently|lately"), lambda _, now: (now - 14 * _DAY, now + _DAY)),
    (re.compile("最近|近来"), lambda _, now: (now - 14 * _DAY, now + _DAY)),
)
_SAID = r"(?:mentioned|said|told (?:you|me|us)|asked(?: for| about)?|wrote|stated|requested)"
_SPEAKERS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf"\b(?:that |which )?the (?:user|customer) (?:has |had )?{_SAID}\b", re.IGNORECASE), "user"),
    (re.compile(rf"\b(?:that |which )?the (?:assistant|agent) (?:has |had )?{_SAID}\b", re.IGNORECASE), "assistant"),
    (re.compile("(?:用户|客户)(?:之前)?(?:提到|说|问|要求)(?:过|的|了)*"), "user"),
    (re.compile("(?:ユーザー|お客様)が(?:言った|述べた|話した|尋ねた|触れた)"), "user"),
)
_FAILED = re.compile(r"\b(?:failed (?:calls?|tool calls?)|errors? (?:of|from|in))\b", re.IGNORECASE)
