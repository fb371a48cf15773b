"""Schemas of kinds: what a page must hold, and what of it survives when it shrinks."""

import json
from collections.abc import Iterator

import pytest

from instar.memstore import (
    Kinds,
    KindSchema,
    Level,
    PageDraft,
    PageType,
    ReasonCode,
    Rejected,
    Store,
    Templates,
    ToolTemplate,
    open_store,
)
from instar.memstore.testing import ALICE, DESK, codes, write

PLAN = KindSchema(key=("goal", "steps.0.name"), required=("goal",))
KINDS = Kinds({"plan": PLAN, "note": KindSchema()}, Templates({"find": ToolTemplate("find", ("id",))}), closed=True)
LONG = "and then we shall see what the weather has to say about it " * 20
STEPS = [{"name": "pack", "why": LONG}, {"name": "ship", "why": LONG}]


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory:", kinds=KINDS) as store:
        yield store


def plan(**content: object) -> PageDraft:
    return PageDraft("plan", PageType.PLAN, id="plan", content=content)  # type: ignore[arg-type]


def test_the_key_fields_of_a_kind_are_its_structured_form_and_its_floor(store: Store) -> None:
    write(store, plan(goal="deliver", steps=STEPS, mood="calm"))
    page = store.get(ALICE, "plan")
    assert page is not None
    pointer, fields = page.forms.structured.split("\n")
    assert pointer == page.forms.pointer
    assert json.loads(fields) == {"goal": "deliver", "steps.0.name": "pack"}
    assert page.forms.cost(Level.STRUCTURED) < page.forms.cost(Level.FULL) / 3


def test_without_a_schema_a_plan_keeps_all_of_its_fields() -> None:
    with open_store("memory:") as store:
        write(store, plan(goal="deliver", steps=STEPS))
        page = store.get(ALICE, "plan")
        assert page is not None
        assert json.loads(page.forms.structured) == {"goal": "deliver", "steps": STEPS}


def test_a_template_of_a_tool_goes_before_the_schema_of_a_kind(store: Store) -> None:
    content = {"tool": "find", "arguments": {"id": 7, "page": 2}, "value": LONG}
    write(store, PageDraft("note", PageType.EVIDENCE, id="n", content=content))
    page = store.get(ALICE, "n")
    assert page is not None
    assert json.loads(page.forms.structured.split("\n")[1]) == {"arguments": {"id": 7}, "tool": "find"}


def test_an_unknown_kind_is_refused_where_kinds_are_closed_and_taken_where_not(store: Store) -> None:
    other = PageDraft("diary", PageType.EVIDENCE, id="d", content={"n": 1})
    with pytest.raises(Rejected, match="unknown kind diary") as error:
        write(store, other)
    assert codes(error) == [ReasonCode.SCHEMA]
    with open_store("memory:", kinds=Kinds({"plan": PLAN})) as open_kinds:
        assert write(open_kinds, other).committed == {"d": 1}


def test_a_page_never_lacks_what_its_kind_requires(store: Store) -> None:
    with pytest.raises(Rejected, match="lacks goal"):
        write(store, plan(steps=STEPS))
    write(store, plan(goal="deliver", steps=STEPS))
    with pytest.raises(Rejected, match="lacks goal") as error, store.writeback(ALICE, scope=DESK) as batch:
        batch.replace("plan", {"steps": STEPS}, expect=1, drop=["goal"])
    assert codes(error) == [ReasonCode.SCHEMA]


def test_an_erased_page_can_be_moved_although_it_lacks_what_its_kind_requires(store: Store) -> None:
    import io

    pytest.importorskip("zstandard", reason="zstandard is not installed")
    write(store, plan(goal="deliver"))
    store.maintenance(ALICE).erase(["plan"], reason="asked to")
    file = io.BytesIO()
    store.export_pages(ALICE, scope="local", file=file)
    with open_store("memory:", kinds=KINDS) as other:
        file.seek(0)
        assert other.import_pages(ALICE, file).pages == 1
