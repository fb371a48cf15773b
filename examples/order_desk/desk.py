"""An order desk over SQLite: the tools that an agent of a small shop works with.

Everything in it is made up, and the same seed makes the same shop. `tools` is what `tools.toml` binds: a mapping of
tool names to functions, over one shop in memory that is made on the first call. The module needs no other of ours,
because it is loaded by its path.
"""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias, cast

from jsonschema import Draft202012Validator

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Row: TypeAlias = "dict[str, Json]"

HERE = Path(__file__).parent
SEED = 7
CUSTOMERS = 150
TODAY = date(2026, 3, 2)
RETURN_DAYS = {"electronics": 14, "lighting": 30, "furniture": 30, "kitchen": 30, "outdoor": 60, "textiles": 30}


class DeskError(Exception):
    """A tool's own error, with the text that the agent gets to see."""


class Desk:
    """One shop. Every public tool is listed in `tools.json`, and is called through `call`."""

    def __init__(self, seed: int = SEED, *, customers: int = CUSTOMERS, path: str = ":memory:") -> None:
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()
        if not self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
            self._db.executescript((HERE / "tables.sql").read_text())
            _stock(self._db, random.Random(seed), customers)
            self._db.commit()

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def call(self, name: str, arguments: Mapping[str, Json]) -> Json:
        """Run one tool.

        Raises:
            DeskError: the tool does not exist, its arguments do not fit its schema, or it refuses.
        """
        validator = _validators().get(name)
        if validator is None:
            raise DeskError(f"unknown tool {name}")
        problem = next(iter(validator.iter_errors(dict(arguments))), None)
        if problem is not None:
            where = "".join(f"{part}: " for part in problem.path)
            raise DeskError(f"invalid arguments for {name}: {where}{problem.message}")
        with self._lock:
            tool = cast("Callable[..., Json]", getattr(self, name))
            result = tool(**arguments)
            self._db.commit()
            return result

    # Customers ----------------------------------------------------------------------------------------------

    def find_customer_by_email(self, email: str) -> Json:
        """The customer with an e-mail address; letter case does not matter."""
        found = self._one("SELECT id FROM customers WHERE email = ?", email.strip().lower())
        if found is None:
            raise DeskError(f"no customer with the e-mail address {email}")
        return {"customer_id": found["id"]}

    def find_customer_by_name_zip(self, first_name: str, last_name: str, zip: str) -> Json:  # noqa: A002
        """The customer with a name and postal code."""
        query = "SELECT id FROM customers WHERE lower(first) = ? AND lower(last) = ? AND zip = ?"
        found = self._one(query, first_name.strip().lower(), last_name.strip().lower(), zip.strip())
        if found is None:
            raise DeskError(f"no customer named {first_name} {last_name} in {zip}")
        return {"customer_id": found["id"]}

    def get_customer(self, customer_id: str) -> Json:
        """A customer's profile, with the ids of all their orders and their ways to pay."""
        row = self._customer(customer_id)
        orders = self.rows("SELECT id FROM orders WHERE customer = ? ORDER BY placed DESC, id", customer_id)
        methods = self.rows("SELECT id, kind, label FROM payment_methods WHERE customer = ? ORDER BY id", customer_id)
        return {
            "customer_id": row["id"],
            "name": {"first": row["first"], "last": row["last"]},
            "email": row["email"],
            "phone": row["phone"],
            "address": {"street": row["street"], "city": row["city"], "zip": row["zip"]},
            "tier": row["tier"],
            "orders": [order["id"] for order in orders],
            "payment_methods": [dict(method) for method in methods],
        }

    def add_note(self, customer_id: str, text: str) -> Json:
        """Leave a note for colleagues on a customer's profile."""
        self._customer(customer_id)
        self._db.execute("INSERT INTO notes VALUES (?, ?)", (customer_id, text))
        return {"customer_id": customer_id, "saved": True}

    # Orders -------------------------------------------------------------------------------------------------

    def get_order(self, order_id: str) -> Json:
        """An order with its items, payment and shipments."""
        row = self._order(order_id)
        items = self.rows(
            "SELECT i.id AS item_id, i.product AS product_id, p.name, p.variant, i.quantity, i.cents, i.status "
            "FROM items i JOIN products p ON p.id = i.product WHERE i.order_id = ? ORDER BY i.id",
            order_id,
        )
        shipments = self.rows("SELECT id FROM shipments WHERE order_id = ? ORDER BY id", order_id)
        total = sum(cast(int, item["cents"]) * cast(int, item["quantity"]) for item in items)
        return {
            "order_id": row["id"],
            "customer_id": row["customer"],
            "status": row["status"],
            "placed_on": row["placed"],
            "ship_to": {"street": row["street"], "city": row["city"], "zip": row["zip"]},
            "items": [_priced(item) for item in items],
            "total": total / 100,
            "paid_with": row["payment_method"],
            "shipments": [shipment["id"] for shipment in shipments],
        }

    def cancel_order(self, order_id: str, reason: str) -> Json:
        """Cancel an order that has not left the warehouse."""
        row = self._order(order_id)
        if row["status"] != "processing":
            raise DeskError(f"order {order_id} is {row['status']} and cannot be cancelled")
        self._db.execute("UPDATE orders SET status = 'cancelled' WHERE id = ?", (order_id,))
        return {"order_id": order_id, "status": "cancelled", "reason": reason}

    def change_address(self, order_id: str, street: str, city: str, zip: str) -> Json:  # noqa: A002
        """Send an order that has not left the warehouse somewhere else."""
        row = self._order(order_id)
        if row["status"] != "processing":
            raise DeskError(f"order {order_id} is {row['status']}; its address cannot be changed")
        self._db.execute(
            "UPDATE orders SET street = ?, city = ?, zip = ? WHERE id = ?", (street, city, zip, order_id)
        )
        return {"order_id": order_id, "ship_to": {"street": street, "city": city, "zip": zip}}

    def return_items(self, order_id: str, item_ids: list[str], refund_to: str, amount: float) -> Json:
        """Register a return of delivered items. The amount must be what was paid for them."""
        row = self._order(order_id)
        if row["status"] != "delivered":
            raise DeskError(f"order {order_id} is {row['status']}; only delivered items can be returned")
        items = {item["id"]: item for item in self.rows("SELECT * FROM items WHERE order_id = ?", order_id)}
        for item_id in item_ids:
            if item_id not in items:
                raise DeskError(f"item {item_id} is not part of order {order_id}")
            if items[item_id]["status"] != "delivered":
                raise DeskError(f"item {item_id} was returned already")
        due = sum(cast(int, items[one]["cents"]) * cast(int, items[one]["quantity"]) for one in set(item_ids))
        if round(amount * 100) != due:
            raise DeskError(f"refund amount does not add up: items cost {due / 100:.2f}, amount is {amount:.2f}")
        owner = self._one("SELECT customer FROM payment_methods WHERE id = ?", refund_to)
        if owner is None or owner["customer"] != row["customer"]:
            raise DeskError(f"payment method {refund_to} not found for this customer")
        self._db.executemany("UPDATE items SET status = 'returned' WHERE id = ?", [(one,) for one in item_ids])
        return {
            "order_id": order_id,
            "returned": list[Json](sorted(set(item_ids))),
            "refund": {"to": refund_to, "amount": amount},
        }

    def track_shipment(self, shipment_id: str) -> Json:
        """Where a parcel is, as its carrier says. Carriers are slow at times: ask again."""
        row = self._one("SELECT * FROM shipments WHERE id = ?", shipment_id)
        if row is None:
            raise DeskError(f"shipment {shipment_id} not found")
        self._asked[shipment_id] += 1
        if int(shipment_id[-2:]) % 8 == 0 and self._asked[shipment_id] == 1:
            raise DeskError(f"time-out: {row['carrier']} did not answer within 10 seconds")
        return {
            "shipment_id": shipment_id,
            "order_id": row["order_id"],
            "carrier": row["carrier"],
            "status": row["status"],
            "last_seen": row["place"],
            "due": row["due"],
        }

    # Products -----------------------------------------------------------------------------------------------

    def search_products(self, query: str, max_price: float | None = None) -> Json:
        """Products whose name or category contains the words; at most eight."""
        rows = self.rows(
            "SELECT id, name, variant, cents FROM products WHERE (instr(lower(name), ?) OR instr(category, ?)) "
            "AND cents <= ? ORDER BY name, variant LIMIT 8",
            query.strip().lower(),
            query.strip().lower(),
            10**9 if max_price is None else round(max_price * 100),
        )
        return [
            {
                "product_id": row["id"],
                "name": row["name"],
                "variant": row["variant"],
                "price": cast(int, row["cents"]) / 100,
            }
            for row in rows
        ]

    def get_product(self, product_id: str) -> Json:
        """One product with its price and stock."""
        row = self._one("SELECT * FROM products WHERE id = ?", product_id)
        if row is None:
            raise DeskError(f"product {product_id} not found")
        fields = {
            "product_id": row["id"],
            "name": row["name"],
            "category": row["category"],
            "variant": row["variant"],
        }
        return fields | {"price": cast(int, row["cents"]) / 100, "in_stock": row["stock"]}

    def get_return_policy(self, category: str) -> Json:
        """How long items of a category can be returned."""
        return {"category": category, "days": RETURN_DAYS[category], "condition": "unused, in the original packaging"}

    # Rows ---------------------------------------------------------------------------------------------------

    def _one(self, query: str, *values: Json) -> Row | None:
        row = self._db.execute(query, values).fetchone()
        return None if row is None else dict(row)

    def rows(self, query: str, *values: Json) -> list[Row]:
        """The rows of a query, for whoever runs the shop; no agent has this."""
        return [dict(row) for row in self._db.execute(query, values)]

    def _customer(self, customer_id: str) -> Row:
        row = self._one("SELECT * FROM customers WHERE id = ?", customer_id)
        if row is None:
            raise DeskError(f"customer {customer_id} not found")
        return row

    def _order(self, order_id: str) -> Row:
        row = self._one("SELECT * FROM orders WHERE id = ?", order_id)
        if row is None:
            raise DeskError(f"order {order_id} not found")
        return row


def _priced(item: Row) -> Json:
    cents = cast(int, item.pop("cents"))
    return item | {"unit_price": cents / 100}


# Making up a shop --------------------------------------------------------------------------------------------


@cache
def _words() -> dict[str, list[object]]:
    return cast("dict[str, list[object]]", json.loads((HERE / "words.json").read_text()))


def _stock(db: sqlite3.Connection, rng: random.Random, customers: int) -> None:
    """Fill the tables. The products are the same in every shop; customers and orders follow the seed."""
    fixed = random.Random(SEED)
    products = [
        (str(fixed.randrange(10**9, 10**10)), name, category, variant, cents + 500 * number, fixed.randrange(0, 60))
        for name, category, cents, variants in cast("list[tuple[str, str, int, list[str]]]", _words()["products"])
        for number, variant in enumerate(variants)
    ]
    db.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?, ?)", products)
    taken: set[str] = set()
    for _ in range(customers):
        _add_customer(db, rng, products, taken)


def _fresh(rng: random.Random, taken: set[str], form: str, digits: int) -> str:
    while (made := form.format(rng.randrange(10 ** (digits - 1), 10**digits))) in taken:
        pass
    taken.add(made)
    return made


def _address(rng: random.Random) -> tuple[str, str, str]:
    words = _words()
    city, prefix = cast("tuple[str, str]", rng.choice(words["cities"]))
    return f"{rng.randrange(1, 240)} {rng.choice(words['streets'])}", city, f"{prefix}{rng.randrange(1000):03d}"


def _add_customer(
    db: sqlite3.Connection, rng: random.Random, products: list[tuple[str, str, str, str, int, int]], taken: set[str]
) -> None:
    words = _words()
    first, last = str(rng.choice(words["first"])), str(rng.choice(words["last"]))
    customer = _fresh(rng, taken, "C{}", 6)
    email = f"{first}.{last}{_fresh(rng, taken, '{}', 3)}@{rng.choice(words['mail'])}".lower()
    address = _address(rng)
    phone = f"555-{rng.randrange(100, 1000)}-{rng.randrange(10_000):04d}"
    tier = rng.choices(["standard", "plus"], [4, 1])[0]
    db.execute(
        "INSERT INTO customers VALUES (?,?,?,?,?,?,?,?,?)", (customer, first, last, email, phone, *address, tier)
    )
    methods = []
    for kind in rng.sample(["card", "wallet", "gift_card"], rng.choices([1, 2], [3, 2])[0]):
        label = f"ending in {rng.randrange(10_000):04d}" if kind == "card" else kind.replace("_", " ")
        methods.append(_fresh(rng, taken, kind + "_{}", 7))
        db.execute("INSERT INTO payment_methods VALUES (?, ?, ?, ?)", (methods[-1], customer, kind, label))
    for _ in range(rng.choices([0, 1, 2, 3, 4, 6], [2, 6, 8, 6, 3, 1])[0]):
        _add_order(db, rng, products, taken, customer=customer, address=address, method=rng.choice(methods))


def _add_order(
    db: sqlite3.Connection,
    rng: random.Random,
    products: list[tuple[str, str, str, str, int, int]],
    taken: set[str],
    *,
    customer: str,
    address: tuple[str, str, str],
    method: str,
) -> None:
    order = _fresh(rng, taken, "#W{}", 7)
    status = rng.choices(["delivered", "in transit", "processing", "cancelled"], [6, 3, 3, 1])[0]
    age = {"delivered": (6, 90), "in transit": (2, 8), "processing": (0, 3), "cancelled": (3, 60)}[status]
    placed = TODAY - timedelta(days=rng.randrange(*age))
    row = (order, customer, status, placed.isoformat(), *address, method)
    db.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    for product in rng.sample(products, rng.choices([1, 2, 3, 4], [5, 4, 2, 1])[0]):
        item = (_fresh(rng, taken, "I{}", 8), order, product[0], rng.choices([1, 2], [5, 1])[0], product[4], status)
        db.execute("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)", item)
    if status in ("delivered", "in transit"):
        for _ in range(rng.choices([1, 2, 3], [7, 4, 1])[0]):
            carrier = str(rng.choice(_words()["carriers"]))
            place = address[1] if status == "delivered" else str(cast("list[str]", rng.choice(_words()["cities"]))[0])
            due = placed + timedelta(days=rng.randrange(3, 7))
            shipment = (_fresh(rng, taken, "SH{}", 9), order, carrier, status, due.isoformat(), place)
            db.execute("INSERT INTO shipments VALUES (?, ?, ?, ?, ?, ?)", shipment)


# What tools.toml binds -----------------------------------------------------------------------------------------


@cache
def schemas() -> list[Row]:
    """The tools as they are offered to an agent: OpenAI function schemas."""
    return cast("list[Row]", json.loads((HERE / "tools.json").read_text()))


@cache
def _validators() -> dict[str, Draft202012Validator]:
    functions = [cast(Row, schema["function"]) for schema in schemas()]
    return {
        cast(str, function["name"]): Draft202012Validator(cast(Row, function["parameters"])) for function in functions
    }


@cache
def _shop() -> Desk:
    return Desk()


def _use(name: str, /, **arguments: Json) -> Json:
    return _shop().call(name, arguments)


TOOL_NAMES = (
    "find_customer_by_email",
    "find_customer_by_name_zip",
    "get_customer",
    "get_order",
    "track_shipment",
    "search_products",
    "get_product",
    "get_return_policy",
    "cancel_order",
    "change_address",
    "return_items",
    "add_note",
)

tools: dict[str, Callable[..., Json]] = {name: partial(_use, name) for name in TOOL_NAMES}
