from __future__ import annotations

import pytest

from instar.engine.compiler.effects import effect_of
from instar.engine.session import ToolSchema


@pytest.mark.parametrize(
    "tool",
    [
        "get_user_details", "retail_get_order_details", "find_user_id_by_email", "search__web_search", "calculate",
        "Google_Maps__search_nearby", "list_all_product_types", "think", "getApiOperation", "Read", "Grep",
        "get_return_policy", "order_desk_get_order",
    ],
)  # fmt: skip
def test_a_verb_that_looks_makes_a_read(tool: str) -> None:
    assert effect_of(tool) == "read"


@pytest.mark.parametrize(
    "tool",
    [
        "cancel_order", "find_and_delete", "set_status", "Bash", "Edit", "mcp__shell__run", "frobnicate", "",
        "update_view", "return_items", "book_reservation", "transfer_to_human_agents", "post_status", "execute_bash",
    ],
)  # fmt: skip
def test_what_nobody_vouches_for_is_a_write(tool: str) -> None:
    assert effect_of(tool) == "write"


def test_the_schema_goes_before_the_name_and_an_override_before_both() -> None:
    said = ToolSchema("get_lock", effect="write")
    assert effect_of("get_lock", said) == "write"
    assert effect_of("get_lock", said, {"get_lock": "read"}) == "read"
    assert effect_of("frobnicate", ToolSchema("frobnicate", effect="read")) == "read"
