"""Records are made quickly, and are the frozen dataclasses that they were."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from instar.memstore.pages import PageDraft, PageType
from instar.memstore.records import quick


@quick
@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plain:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list)


def test_fields_are_given_by_place_or_name_and_have_their_defaults() -> None:
    assert Point(1) == Point(1, 2, []) == Point(x=1, tags=[])
    assert (Point(1, 3).y, Point(1, tags=["a"]).tags) == (3, ["a"])
    assert Point(1).tags is not Point(1).tags
    assert repr(Point(1)) == "Point(x=1, y=2, tags=[])"
    assert type(Point(1)) is Point


@pytest.mark.parametrize("given", [((), {}), ((1, 2, [], 4), {}), ((1,), {"z": 1}), ((1,), {"x": 1})])
def test_wrong_fields_are_named_as_they_were(given: tuple[tuple[int, ...], dict[str, int]]) -> None:
    with pytest.raises(TypeError) as plain:
        Plain(*given[0], **given[1])  # type: ignore[arg-type]
    with pytest.raises(TypeError) as made:
        Point(*given[0], **given[1])  # type: ignore[arg-type]
    assert str(made.value) == str(plain.value).replace("Plain", "Point")


def test_nobody_can_change_one() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del point.x
    assert not hasattr(point, "__dict__")


def test_copies_are_of_the_same_kind_and_frozen_too() -> None:
    draft = PageDraft("note", PageType.PLAN, {"a": [1]}, tags=("b",))
    unpickled = pickle.loads(pickle.dumps(draft))  # noqa: S301  (our own)
    for other in (copy.copy(draft), copy.deepcopy(draft), unpickled, replace(draft)):
        assert other == draft
        assert type(other) is PageDraft
        with pytest.raises(FrozenInstanceError):
            other.kind = "other"
    assert replace(draft, kind="other").kind == "other"


def test_a_class_below_it_has_its_own_fields() -> None:
    @dataclass(frozen=True)
    class Named(Point):
        name: str = "n"

    class Loose(Point):
        pass

    assert (Named(1, name="a").name, Named(1).y, type(Named(1))) == ("a", 2, Named)
    assert (Loose(1).y, Loose(1).tags, type(Loose(1))) == (2, [], Loose)
