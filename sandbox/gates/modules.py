"""What a skill may import, and which names of it: pure modules, and of each only what it makes public.

A module's other attributes often lead out (`json.codecs`, `uuid.os`, `re.enum.sys`), so they are closed as well.
"""

from __future__ import annotations

import importlib
from functools import cache

ALLOWED_MODULES = frozenset({
    "__future__", "base64", "bisect", "collections", "collections.abc", "dataclasses", "datetime", "decimal", "enum",
    "fractions", "functools", "hashlib", "heapq", "html", "itertools", "json", "math", "numbers", "operator", "re",
    "statistics", "string", "textwrap", "typing", "unicodedata", "urllib.parse", "uuid", "zoneinfo", "difflib",
    "calendar", "binascii", "struct", "colorsys", "graphlib", "types", "csv", "html.parser", "io",
})  # fmt: skip

_EXPLICIT = {
    "__future__": frozenset({"annotations"}),
    "uuid": frozenset({"UUID", "uuid3", "uuid5", "NAMESPACE_DNS", "NAMESPACE_OID", "NAMESPACE_URL"}),
    "hashlib": frozenset({"md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s"}),
    "csv": frozenset({"reader", "writer", "DictReader", "DictWriter", "QUOTE_ALL", "QUOTE_MINIMAL", "QUOTE_NONE",
                      "QUOTE_NONNUMERIC"}),
    "io": frozenset({"BytesIO", "StringIO"}),
    "types": frozenset({"MappingProxyType", "SimpleNamespace", "NoneType"}),
    "zoneinfo": frozenset({"ZoneInfo", "ZoneInfoNotFoundError"}),
    "operator": frozenset({"itemgetter", "add", "sub", "mul", "truediv", "floordiv", "mod", "eq", "ne", "lt", "le",
                           "gt", "ge", "and_", "or_", "not_", "neg", "contains", "getitem"}),
    "string": frozenset({"ascii_letters", "ascii_lowercase", "ascii_uppercase", "digits", "hexdigits", "octdigits",
                         "printable", "punctuation", "whitespace", "capwords", "Template"}),
}  # fmt: skip

# Public, and still a door: they evaluate text, build classes from text, read files, or reach other modules.
_DOORS = {
    "typing": frozenset({"get_type_hints", "ForwardRef", "evaluate_forward_ref"}),
    # These copy attributes by name, or evaluate annotations that are text.
    "functools": frozenset({"update_wrapper", "wraps", "singledispatch", "singledispatchmethod"}),
    "enum": frozenset({"global_enum", "global_enum_repr", "global_flag_repr", "global_str"}),
    "dataclasses": frozenset({"make_dataclass"}),
    "base64": frozenset({"main", "test", "encode", "decode"}),
    "re": frozenset({"template", "Scanner"}),
    "calendar": frozenset({"main"}),
}


def importable(module: str, dependencies: frozenset[str]) -> bool:
    """Whether a skill may import the module: on the list, or of a dependency that its manifest pins."""
    return module in ALLOWED_MODULES or module.partition(".")[0] in dependencies


def usable(module: str, name: str, dependencies: frozenset[str]) -> bool:
    """Whether a skill may use this name of an allowed module; a submodule counts where it is on the list itself."""
    if module not in ALLOWED_MODULES:
        return module.partition(".")[0] in dependencies and not name.startswith("_")
    return f"{module}.{name}" in ALLOWED_MODULES or name in _public(module)


@cache
def _public(module: str) -> frozenset[str]:
    if module in _EXPLICIT:
        return _EXPLICIT[module]
    loaded = importlib.import_module(module)  # from the fixed list above, never from a draft
    exported = getattr(loaded, "__all__", None)
    names = exported if exported is not None else [name for name in vars(loaded) if not name.startswith("_")]
    kept = (name for name in names if not _is_module(getattr(loaded, name, None)))
    return frozenset(kept) - _DOORS.get(module, frozenset())


def _is_module(value: object) -> bool:
    return isinstance(value, type(importlib))
