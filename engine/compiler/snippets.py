"""Small functions that emitted code brings along, each only where it is called."""

from __future__ import annotations

PICK = '''\
def _pick(value, *steps):
    """Return the part that the steps lead to, or None where they lead nowhere."""
    try:
        for step in steps:
            value = value[step]
    except (KeyError, IndexError, TypeError):
        return None
    return value
'''

EACH = '''\
def _each(value, kind):
    """Return the items of a list, or nothing where there is no such list."""
    return value if isinstance(value, kind) else kind()
'''

GIVEN = '''\
def _given(arguments):
    """Leave out what was not given."""
    return {name: value for name, value in arguments.items() if value is not None}
'''

FIRST = '''\
def _first(*values):
    """Return the first value that is there, or None."""
    return next((value for value in values if value is not None), None)
'''

LIMITED = '''\
def _limited(items, limit, tool, errors):
    """Return the first items, and report how many were left out."""
    items = list(items)
    if len(items) > limit:
        errors.append({"tool": tool, "arguments": {}, "error": f"{len(items) - limit} items left out"})
    return items[:limit]
'''

COLLECTED = '''\
def _collected(values, *steps):
    """Return the different values that the steps lead to, in order, or None where there are none."""
    for step in steps:
        if step == "*":
            values = [item for value in values if isinstance(value, list) for item in value]
        elif step == "*keys":
            values = [key for value in values if isinstance(value, dict) for key in value]
        elif step == "*values":
            values = [item for value in values if isinstance(value, dict) for item in value.values()]
        elif isinstance(step, int):
            values = [value[step] for value in values if isinstance(value, list) and len(value) > step >= -len(value)]
        else:
            values = [value[step] for value in values if isinstance(value, dict) and step in value]
    return list(dict.fromkeys(value for value in values if isinstance(value, str | int | float))) or None
'''

SNIPPETS = {
    "_pick": PICK,
    "_each": EACH,
    "_given": GIVEN,
    "_first": FIRST,
    "_collected": COLLECTED,
    "_limited": LIMITED,
}
"""By the name that calls it."""
