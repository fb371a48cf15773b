"""What is fetched ahead while sessions are lived through again is counted by what the agent then does."""

from collections.abc import Sequence

from benchmarks.recall_foresight import measure
from instar.memstore import Page, PageDraft, PageType, Principal, open_store

BY = Principal("test", ("x",))


def sessions(*told: Sequence[dict[str, object]]) -> list[list[Page]]:
    """Steps as they are stored."""
    with open_store("memory:") as store:
        made = []
        for number, steps in enumerate(told):
            with store.writeback(BY, scope="x") as batch:
                for place, step in enumerate(steps):
                    content = {"call_id": f"c{number}-{place // 2}", **step}
                    batch.append(PageDraft("step", PageType.EVIDENCE, content, id=f"s{number}-{place}"))  # type: ignore[arg-type]
            pages = store.get_many(BY, [f"s{number}-{place}" for place in range(len(steps))])
            made.append(list(pages.values()))
    return made


def asked(text: str) -> dict[str, object]:
    return {"step": "message", "speaker": "user", "text": text}


def said(text: str) -> dict[str, object]:
    return {"step": "message", "speaker": "assistant", "text": text}


def called(text: str) -> list[dict[str, object]]:
    call = {"step": "call", "tool": "look", "arguments": {"what": text}, "call_id": text}
    return [call, {"step": "result", "tool": "look", "value": "seen", "status": "ok", "call_id": text}]


def test_a_page_of_an_earlier_session_that_the_agent_then_names_is_of_use() -> None:
    first = [asked("refund an order"), *called("the desk"), said("The refund is in ledger_17.")]
    second = [asked("refund another order"), *called("the desk again"), said("I look into ledger_17.")]
    results, baselines = measure(sessions(first, second), calls=9)
    assert 0 < results["prefetch.lived.share"] < 1
    assert results["prefetch.lived.task.fetched"] > 0
    assert results["prefetch.lived.faults"] == 0
    assert baselines["prefetch.lived.share"] > 0


def test_what_nobody_names_is_of_no_use() -> None:
    first = [asked("refund an order"), *called("the desk"), said("The refund is in ledger_17.")]
    second = [asked("refund another order"), *called("the desk again"), said("It is done.")]
    results, _ = measure(sessions(first, second), calls=9)
    assert results["prefetch.lived.task.fetched"] > 0
    assert results["prefetch.lived.share"] == 0


def test_no_more_calls_are_made_than_are_wanted() -> None:
    results, _ = measure(sessions([asked("refund"), *called("a"), *called("b")], [asked("refund")]), calls=1)
    assert results["prefetch.lived.pages_per_session"] == 0
