"""What is known of a tool decides what survives of its calls, and what counts as valid."""

import json

from instar.memstore import State, Store, Templates, ToolTemplate, infer_template, open_store
from instar.memstore.represent import Representer
from instar.memstore.testing import ALICE
from instar.memstore.testing_harness import LONG, call, started


def test_a_template_decides_what_survives_and_what_counts_as_valid(store: Store) -> None:
    template = ToolTemplate("get_order", ("order",), ("status", "items.0.sku"), required=("status",))
    harness = started(store, templates=Templates({"get_order": template}))
    good = call(harness, 1, {"status": "sent", "items": [{"sku": "A1"}], "note": LONG})
    bad = call(harness, 2, {"items": []})
    harness.close()
    pages = store.get_many(ALICE, [good, bad])
    assert (pages[good].state, pages[bad].state) == (State.SUCCESS, State.INTERMEDIATE)
    assert pages[bad].content["problem"] == "the result lacks status"
    harness = started(store, session="s2")
    assert harness.tool_start("get_order", {"order": 2}, call_id="c").earlier is None


def test_a_template_is_inferred_from_calls() -> None:
    template = infer_template(
        "t",
        [{"id": n, "filter": {"a": 1}} for n in range(5)],
        [{"status": "ok", "body": "x" * 500, "page": n} for n in range(4)] + [{"status": "ok"}],
    )
    assert (template.arguments, template.result, template.required) == (("id",), ("status",), ("status",))


def test_key_fields_of_a_template_survive_in_the_structured_form() -> None:
    templates = Templates({"get_order": ToolTemplate("get_order", ("order",), ("status", "items.0.sku"))})
    with open_store("memory:", representer=Representer(fields=templates)) as store:
        harness = started(store, templates=templates)
        page_id = call(harness, 1, {"status": "sent", "items": [{"sku": "A1"}], "note": LONG})
        harness.close()
        structured = store.get_many(ALICE, [page_id])[page_id].forms.structured
    _, _, fields = structured.partition("\n")
    assert json.loads(fields)["value"] == {"status": "sent", "items.0.sku": "A1"}
    assert json.loads(fields)["arguments"] == {"order": 1}
