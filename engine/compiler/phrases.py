"""The sentences of proposals and requirements, in English and in Chinese.

Each is a format string with named fields; what is put into it is never a format string itself. Names of tools, inputs
and things stay as the tools spell them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class Phrases:
    """One language."""

    comma: str
    conjunction: str
    alternative: str
    nothing: str
    the: str

    summary: str
    changed: str
    merged: str
    purpose: str
    request: str
    about: str
    several: str
    fires: str
    offered: str
    only_first: str
    known_one: str
    named_one: str
    called_before: str
    stale: str

    gives: str
    once: str
    at_most_once: str
    each_item: str
    benefit: str

    not_needed: str
    thin: str
    by_chance: str
    failed_tasks: str
    fails: str
    many_calls: str
    may_change: str
    passed_on: str

    ask_every_time: str
    ask_first_error: str
    ask_schemas: str

    def listed(self, items: Sequence[str]) -> str:
        """The items in a row: "a", "a and b", "a, b and c"."""
        if len(items) < 2:
            return "".join(items)
        return f"{self.comma.join(items[:-1])}{self.conjunction}{items[-1]}"


ENGLISH = Phrases(
    comma=", ",
    conjunction=" and ",
    alternative=", or ",
    nothing="nothing",
    the="the {name}",
    summary="One call for {things}: what takes {tools} one after the other today. Seen in {sessions} sessions of "
    "{tasks} tasks; each use saves {turns:.1f} turns on average.",
    changed="{skill} does something else than what recurs now. ",
    merged="As a new version of {skill} it can take the place of {skills}. ",
    purpose="Fetch {things} in one call instead of calling {tools} one after the other. "
    "It saves {turns:.1f} turns per use.",
    request="A request{about} gives {inputs}, and needs {needed} as well",
    about=" ({words})",
    several="Before the first {tool}, when the answer depends on more than one of them",
    fires="It may be used unasked: on {uses} recorded uses of {tasks} tasks {needed:.0%} of its calls were needed, "
    "and {kept:.0%} of the possible savings stay",
    offered="Unasked: offer it, and let the agent decide",
    only_first="Only the {thing} is needed: call {tool} alone",
    known_one="The one that is meant is already known: call {tool} for it alone",
    named_one="The request already names the one it is about by its id: call {tool} for it alone",
    called_before="{tools} was called before in the same conversation: go on one by one",
    stale="An earlier answer would do: every use asks the tools anew",
    gives="gives {thing}, called {often}; seen in {sessions} sessions of {tasks} tasks",
    once="once",
    at_most_once="at most once",
    each_item="once for each item",
    benefit="{turns:.0f} turns over {uses} uses in this window, {per_use:.1f} per use. Of {opportunities} sessions "
    "that called {tool}, {needed} went on to what this skill fetches: {share:.0%}, with a 95 % interval of "
    "{low:.0%} to {high:.0%}. In the others it would fetch more than was needed.",
    not_needed="Of {opportunities} sessions that made the first call {others} did not go on: used every time, only "
    "{share:.0%} of the uses were needed (95 % interval {low:.0%} to {high:.0%}).",
    thin="Only {tasks} distinct tasks show it.",
    by_chance="The link of {tool} also holds by chance, against another task, in {rate:.0%}.",
    failed_tasks="{failed} of the {cited} sessions that are cited for it ended in a failed task.",
    fails="{tool} failed {times} times: “{signature}”.",
    many_calls="It makes one call for each item: a long list means many calls.",
    may_change="{tools} may change something.",
    passed_on="What a tool answers is passed on as it is; whoever writes that data can put text before the agent.",
    ask_every_time="Whether to use it at every first call: the evidence does not tell whether most uses are needed.",
    ask_first_error="What happens when the first call fails was not recorded; the error is passed on.",
    ask_schemas="The tools' schemas were not recorded: types come from the values seen.",
)

CHINESE = Phrases(
    comma="、",
    conjunction=" 和 ",
    alternative="，或者",
    nothing="无",
    the="{name}",
    summary="一次调用即可取得 {things}：目前需要依次调用 {tools}。见于 {tasks} 个任务的 {sessions} 个会话；"
    "每次使用平均节省 {turns:.1f} 轮。",
    changed="{skill} 的做法与目前反复出现的做法不同。",
    merged="作为 {skill} 的新版本，它可以取代 {skills}。",
    purpose="一次调用取得 {things}，不必依次调用 {tools}。每次使用节省 {turns:.1f} 轮。",
    request="请求{about}已给出 {inputs}，并且还需要 {needed}",
    about="（常见词：{words}）",
    several="在第一次调用 {tool} 之前，且答案取决于其中不止一项",
    fires="可以不经询问直接使用：在 {tasks} 个任务的 {uses} 次有记录的使用中，{needed:.0%} 的调用确有需要，"
    "并保留 {kept:.0%} 的可节省量",
    offered="不要不经询问直接使用：只作为建议，由智能体决定",
    only_first="只需要 {thing}：单独调用 {tool}",
    known_one="已经知道是哪一项：只为它调用 {tool}",
    named_one="请求中已用编号指明是哪一项：只为它调用 {tool}",
    called_before="同一会话中已经调用过 {tools}：继续逐项调用",
    stale="先前的答案已经够用：每次使用都会重新查询工具",
    gives="给出 {thing}，调用{often}；见于 {tasks} 个任务的 {sessions} 个会话",
    once="一次",
    at_most_once="至多一次",
    each_item="每项一次",
    benefit="在本时段内 {uses} 次使用共节省 {turns:.0f} 轮，每次 {per_use:.1f} 轮。"
    "在调用过 {tool} 的 {opportunities} 个会话中，{needed} 个继续取得了本技能所取的内容：{share:.0%}，"
    "95 % 置信区间为 {low:.0%} 至 {high:.0%}。在其余会话中会多取不需要的内容。",
    not_needed="在做出第一次调用的 {opportunities} 个会话中，有 {others} 个没有继续："
    "若每次都用，只有 {share:.0%} 的使用是需要的（95 % 置信区间 {low:.0%} 至 {high:.0%}）。",
    thin="只有 {tasks} 个不同的任务显示了它。",
    by_chance="{tool} 的数据联系在 {rate:.0%} 的情况下对另一任务也偶然成立。",
    failed_tasks="所引用的 {cited} 个会话中有 {failed} 个以任务失败告终。",
    fails="{tool} 失败了 {times} 次：“{signature}”。",
    many_calls="它为每一项做一次调用：列表很长时调用也很多。",
    may_change="{tools} 可能会改变数据。",
    passed_on="工具的回答原样传递；写入这些数据的人可以借此把文字送到智能体面前。",
    ask_every_time="是否在每次第一次调用时都使用：证据不足以说明多数使用是否需要。",
    ask_first_error="第一次调用失败时会怎样没有记录；错误会原样传出。",
    ask_schemas="没有记录工具的模式（schema）：类型取自所见的值。",
)


def phrases(language: Language) -> Phrases:
    """The sentences of a language."""
    return CHINESE if language == "zh" else ENGLISH
