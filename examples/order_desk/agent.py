"""A scripted agent at the order desk: it knows its work, and makes the mistakes that agents make.

Every function plays one kind of request from the customer's first words to the end, and says whether it ended well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from examples.order_desk.conversation import Conversation, Failed
from examples.order_desk.desk import RETURN_DAYS, Json, Row

Request = Callable[[Conversation], bool]


def open_with(talk: Conversation, text: str) -> None:
    """The customer's first words."""
    hello = talk.words("hello")
    talk.customer(f"{hello}, {text}" if hello else text[0].upper() + text[1:])


def goodbye(talk: Conversation, text: str) -> bool:
    """Tell the result; the customer may thank, and now and then has to say that it is not what they asked for."""
    talk.agent(f"{text} {talk.words('anything')}".strip())
    if talk.chance(0.06):
        talk.customer(talk.words("wrong"))
        talk.agent(talk.words("give_up"))
        return False
    if talk.chance(0.6):
        talk.customer(talk.words("thanks"))
        if talk.chance(0.5):
            talk.agent("You are welcome.")
    return True


def give_up(talk: Conversation) -> bool:
    """The agent does not get further."""
    talk.agent(talk.words("give_up"))
    return False


# Who is it? ---------------------------------------------------------------------------------------------------


def someone(talk: Conversation, status: str | None = None) -> Row:
    """A customer with an order, in a given state where one is given; `order_id` is that order."""
    query = (
        "SELECT c.*, o.id AS order_id FROM customers c JOIN orders o ON o.customer = c.id "
        "WHERE o.status = coalesce(?, o.status) ORDER BY c.id, o.id"
    )
    return talk.rng.choice(talk.desk.rows(query, status))


def identify(talk: Conversation, person: Row) -> str | None:
    """Find the customer's id by what they tell; None where that does not work out."""
    talk.agent(talk.words("ask"))
    way = talk.rng.choices(["email", "name", "number"], [11, 7, 2])[0]
    if way == "number":
        talk.customer(talk.words("number", **person))
        return cast(str, person["id"])
    if way == "name":
        talk.customer(talk.words("name", **person))
        names: Row = {"first_name": person["first"], "last_name": person["last"], "zip": person["zip"]}
        return _found(talk.calls([("find_customer_by_name_zip", names)])[0])
    email = cast(str, person["email"])
    if talk.chance(0.12):
        name, _, host = email.partition("@")
        talk.customer(talk.words("email", email=f"{name[:-1]}@{host}"))
        if (found := _found(talk.call("find_customer_by_email", email=f"{name[:-1]}@{host}"))) is not None:
            return found
        talk.agent(talk.words("again"))
        if talk.chance(0.2):
            talk.customer(talk.words("name", **person))
            names = {"first_name": person["first"], "last_name": person["last"], "zip": person["zip"]}
            return _found(talk.calls([("find_customer_by_name_zip", names)])[0])
        talk.customer(talk.words("sorry", email=email))
    else:
        talk.customer(talk.words("email", email=email))
    return _found(talk.call("find_customer_by_email", email=email))


def _found(answer: Json | Failed) -> str | None:
    return None if isinstance(answer, Failed) else cast(str, cast(Row, answer)["customer_id"])


def profile(talk: Conversation, person: Row) -> Row | None:
    """Identify the customer and open their profile."""
    customer = identify(talk, person)
    if customer is None:
        return None
    if talk.chance(0.05):
        talk.call("get_return_policy", category=talk.rng.choice(sorted(RETURN_DAYS)))
    answer = talk.call("get_customer", customer_id=customer)
    if talk.chance(0.04):
        answer = talk.call("get_customer", customer_id=customer)
    return None if isinstance(answer, Failed) else cast(Row, answer)


# Which order? -------------------------------------------------------------------------------------------------


def spelled(talk: Conversation, order_id: str) -> str:
    """An order id as customers write it."""
    return talk.rng.choices([order_id, order_id[1:], order_id[2:]], [5, 4, 1])[0]


def open_order(talk: Conversation, written: str) -> Row | None:
    """Look up an order by the id that the customer wrote."""
    full = "#W" + written.lstrip("#W")
    attempt = full if talk.chance(0.25) else written
    answer = talk.call("get_order", order_id=attempt)
    if isinstance(answer, Failed) and attempt != full and talk.chance(0.8):
        answer = talk.call("get_order", order_id=full)
    return None if isinstance(answer, Failed) else cast(Row, answer)


def all_orders(talk: Conversation, customer: Row) -> list[Row]:
    """Look at every order of a profile: at once, or one after the other."""
    ids = cast("list[str]", customer["orders"])
    if talk.chance(0.55):
        answers = talk.calls([("get_order", {"order_id": order_id}) for order_id in ids]) if ids else []
    else:
        answers = [talk.call("get_order", order_id=order_id) for order_id in ids]
    return [cast(Row, answer) for answer in answers if not isinstance(answer, Failed)]


def order_with(talk: Conversation, customer: Row, product: str) -> Row | None:
    """Search the orders of a profile for a product; not every agent goes on to the end."""
    if talk.chance(0.6):
        found = [order for order in all_orders(talk, customer) if has(order, product)]
        return found[0] if found else None
    for number, order_id in enumerate(cast("list[str]", customer["orders"])):
        if number >= 2 and talk.chance(0.1):
            return None
        answer = talk.call("get_order", order_id=order_id)
        if not isinstance(answer, Failed) and has(cast(Row, answer), product):
            return cast(Row, answer)
    return None


def items_of(order: Row) -> list[Row]:
    """The items of an order."""
    return cast("list[Row]", order["items"])


def has(order: Row, product: str) -> bool:
    """Whether an order holds a product."""
    return any(item["name"] == product for item in items_of(order))


def reach_order(talk: Conversation, person: Row, product: str, written: str) -> tuple[Row | None, Row | None]:
    """The customer's profile and the order in question, by its id where they wrote one ("" where not)."""
    if written and talk.chance(0.2):  # straight to the order
        order = open_order(talk, written)
        if order is not None and talk.chance(0.5):
            answer = talk.call("get_customer", customer_id=order["customer_id"])
            return (None if isinstance(answer, Failed) else cast(Row, answer)), order
        if order is not None:
            return None, order
    customer = profile(talk, person)
    if customer is None:
        return None, None
    order = open_order(talk, written) if written else None
    if order is None and (not written or talk.chance(0.7)):
        order = order_with(talk, customer, product)
    return customer, order


# Requests -----------------------------------------------------------------------------------------------------


def begin(talk: Conversation, kind: str, status: str, **more: object) -> tuple[Row, str, str]:
    """A customer with an order in a state opens a request about it; they may know its id."""
    person = someone(talk, status)
    order_id = cast(str, person["order_id"])
    query = "SELECT p.name FROM items i JOIN products p ON p.id = i.product WHERE i.order_id = ? ORDER BY i.id"
    product = cast(str, talk.rng.choice(talk.desk.rows(query, order_id))["name"])
    known = kind in ("address", "price") or talk.chance(0.45)
    written = spelled(talk, order_id) if known else ""
    text = talk.words(kind if known else f"{kind}_unknown", order=written, product=product.lower(), **more)
    open_with(talk, text)
    return person, product, written


def where(talk: Conversation) -> bool:
    """Where is my order?"""
    person, product, written = begin(talk, "where", talk.rng.choices(["in transit", "delivered"], [4, 1])[0])
    _, order = reach_order(talk, person, product, written)
    if order is None:
        return give_up(talk)
    return goodbye(talk, told) if (told := follow(talk, order)) else give_up(talk)


def follow(talk: Conversation, order: Row) -> str:
    """Track every parcel of an order; "" where a carrier does not answer."""
    told = []
    for shipment_id in cast("list[str]", order["shipments"]):
        answer = talk.call("track_shipment", shipment_id=shipment_id)
        if isinstance(answer, Failed) and talk.chance(0.7):
            answer = talk.call("track_shipment", shipment_id=shipment_id)
        if isinstance(answer, Failed):
            return ""
        parcel = cast(Row, answer)
        told.append(f"{parcel['carrier']} has your parcel: {parcel['status']}, last seen in {parcel['last_seen']}.")
    return " ".join(told) or f"Order {order['order_id']} is {order['status']}."


def status(talk: Conversation) -> bool:
    """What of mine is still open?"""
    person = someone(talk)
    open_with(talk, talk.words("status"))
    customer = profile(talk, person)
    if customer is None:
        return give_up(talk)
    orders = all_orders(talk, customer)
    told = [f"{order['order_id']} is {order['status']}." for order in orders]
    for order in orders:
        if order["status"] == "in transit" and talk.chance(0.6):
            told.append(follow(talk, order) or "One carrier does not answer at the moment.")
    return goodbye(talk, " ".join(told) or "There are no orders on your account.")


def send_back(talk: Conversation) -> bool:
    """I want to return something."""
    person, product, written = begin(talk, "return", "delivered")
    customer, order = reach_order(talk, person, product, written)
    if order is None or not has(order, product):
        return give_up(talk)
    item = next(item for item in items_of(order) if item["name"] == product)
    if talk.chance(0.4):
        answer = talk.call("get_product", product_id=item["product_id"])
        category = cast(Row, answer)["category"] if not isinstance(answer, Failed) else "kitchen"
        talk.call("get_return_policy", category=category)
    elif talk.chance(0.3):
        talk.call("get_return_policy", category=talk.rng.choice(sorted(RETURN_DAYS)))
    amount = round(cast(float, item["unit_price"]) * cast(int, item["quantity"]), 2)
    refund_to = cast(str, order["paid_with"])
    talk.agent(f"I would return the {product.lower()} and refund {amount:.2f} to {refund_to}. Shall I?")
    talk.customer(talk.rng.choice(["yes please", "Yes.", "go ahead", "Please do."]))
    first = talk.rng.choices([amount, cast(float, item["unit_price"]), cast(float, order["total"])], [6, 2, 1])[0]
    wanted: Row = {"order_id": order["order_id"], "item_ids": [item["item_id"]], "refund_to": refund_to}
    answer = talk.calls([("return_items", wanted | {"amount": first})])[0]
    if isinstance(answer, Failed) and first != amount and talk.chance(0.8):
        answer = talk.calls([("return_items", wanted | {"amount": amount})])[0]
    if isinstance(answer, Failed):
        return give_up(talk)
    if customer is not None and talk.chance(0.15):
        talk.call("add_note", customer_id=customer["customer_id"], text=f"Returned {product}.")
    return goodbye(talk, f"Done. {amount:.2f} will be refunded.")


_REASONS = {
    "I no longer need it": "no longer needed",
    "I ordered it by mistake": "ordered by mistake",
    "it would arrive too late": "arrives too late",
    "I found it cheaper elsewhere": "no longer needed",
    "my plans changed": "no longer needed",
}


def cancel(talk: Conversation) -> bool:
    """Please cancel my order."""
    why = talk.words("why")
    state = talk.rng.choices(["processing", "in transit"], [4, 1])[0]
    person, product, written = begin(talk, "cancel", state, why=why)
    _, order = reach_order(talk, person, product, written)
    if order is None:
        return give_up(talk)
    if order["status"] != "processing" and talk.chance(0.6):
        return goodbye(talk, f"Order {order['order_id']} is {order['status']}, so it cannot be cancelled any more.")
    talk.agent(f"Order {order['order_id']} comes to {order['total']:.2f}. Shall I cancel it?")
    talk.customer(talk.rng.choice(["yes", "Yes, cancel it.", "please", "Do it."]))
    reason = _REASONS[why]
    first = reason if talk.chance(0.8) else why.lower()
    answer = talk.call("cancel_order", order_id=order["order_id"], reason=first)
    if isinstance(answer, Failed) and first != reason:
        answer = talk.call("cancel_order", order_id=order["order_id"], reason=reason)
    if isinstance(answer, Failed):
        return goodbye(talk, "It has left the warehouse already. You can return it once it arrives.")
    return goodbye(talk, "It is cancelled.")


def move(talk: Conversation) -> bool:
    """Send it somewhere else."""
    words = {"street": f"{talk.rng.randrange(1, 200)} {talk.rng.choice(['Lake View', 'North Road', 'Rose Alley'])}"}
    place = talk.rng.choice(talk.desk.rows("SELECT city, zip FROM customers ORDER BY id"))
    target: Row = {**words, **place}
    person, product, written = begin(talk, "address", "processing", **target)
    _, order = reach_order(talk, person, product, written)
    if order is None:
        return give_up(talk)
    talk.agent(
        f"I would send {order['order_id']} to {target['street']}, {target['zip']} {target['city']}. Is that right?"
    )
    talk.customer(talk.rng.choice(["yes", "Correct.", "exactly"]))
    answer = talk.calls([("change_address", {"order_id": order["order_id"], **target})])[0]
    return give_up(talk) if isinstance(answer, Failed) else goodbye(talk, "The new address is saved.")


def spend(talk: Conversation) -> bool:
    """What did all of it cost?"""
    person = someone(talk)
    open_with(talk, talk.words("spend"))
    customer = profile(talk, person)
    if customer is None:
        return give_up(talk)
    kept = [order for order in all_orders(talk, customer) if order["status"] != "cancelled"]
    total = sum(cast(float, order["total"]) for order in kept)
    return goodbye(talk, f"Your {len(kept)} orders come to {total:.2f}.")


def price(talk: Conversation) -> bool:
    """What do the things I bought cost today?"""
    person, product, written = begin(talk, "price", "delivered")
    _, order = reach_order(talk, person, product, written)
    if order is None:
        return give_up(talk)
    wanted: list[tuple[str, Row]] = [("get_product", {"product_id": item["product_id"]}) for item in items_of(order)]
    answers = talk.calls(wanted) if talk.chance(0.5) else [talk.calls([one])[0] for one in wanted]
    products = [cast(Row, answer) for answer in answers if not isinstance(answer, Failed)]
    told = [f"{one['name']}: {one['price']:.2f}, {one['in_stock']} in stock." for one in products]
    return goodbye(talk, " ".join(told))


def product(talk: Conversation) -> bool:
    """What do you sell?"""
    row = talk.rng.choice(talk.desk.rows("SELECT name, variant, cents FROM products ORDER BY id"))
    name, limit = cast(str, row["name"]), cast(int, row["cents"]) / 100 + talk.rng.randrange(5, 40)
    open_with(talk, talk.words("product", product=name.lower(), variant=row["variant"], price=f"{limit:.0f}"))
    query = name.split()[-1].lower() if talk.chance(0.6) else name.lower()
    filters: Row = {"query": query} | ({"max_price": round(limit)} if talk.chance(0.4) else {})
    answer = talk.calls([("search_products", filters)])[0]
    found = [] if isinstance(answer, Failed) else cast("list[Row]", answer)
    if not found:
        return give_up(talk)
    chosen = found if talk.chance(0.35) else found[: talk.rng.randrange(1, 3)]
    answers = talk.calls([("get_product", {"product_id": one["product_id"]}) for one in chosen])
    stock = [cast(Row, one) for one in answers if not isinstance(one, Failed)]
    return goodbye(talk, " ".join(f"{one['name']} ({one['variant']}): {one['in_stock']} in stock." for one in stock))


def complaint(talk: Conversation) -> bool:
    """Please write that down."""
    person = someone(talk)
    text = talk.words("complaint")
    open_with(talk, text)
    customer = identify(talk, person)
    if customer is None:
        return give_up(talk)
    answer = talk.call("add_note", customer_id=customer, text=text)
    return give_up(talk) if isinstance(answer, Failed) else goodbye(talk, "I have left a note for my colleagues.")


def chat(talk: Conversation) -> bool:
    """Nothing that needs a tool."""
    open_with(talk, talk.words("chat"))
    if talk.chance(0.15):
        talk.call("search_products", query=talk.rng.choice(["shop", "abroad", "job"]))
    return goodbye(talk, talk.words("chat_reply"))


REQUESTS: dict[str, tuple[int, Request]] = {
    "where": (16, where),
    "return": (8, send_back),
    "cancel": (6, cancel),
    "status": (5, status),
    "product": (6, product),
    "price": (4, price),
    "spend": (3, spend),
    "address": (3, move),
    "complaint": (2, complaint),
    "chat": (2, chat),
}
"""Kind → weight, and the function that plays it."""
