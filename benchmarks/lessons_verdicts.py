"""Lessons read by hand: whether the advice is right for the failure it is given for. Keys are digests of the text."""

from __future__ import annotations

READ: dict[str, bool] = {
    "0b13d7ad765e": True,
    "0d2bba7b1294": True,
    "100ee1a182ef": True,
    "113c0a619ee5": True,
    "1330ea509a9e": True,
    "1bb0d718b383": True,
    "38a6ed0d0aa6": True,
    "3d67fb36f941": True,
    "42618c54f67f": True,
    "46adac97a554": True,
    "5adb365247f1": True,
    "5b8722e72854": True,
    "61592a17423d": True,
    "61b573e4d7f8": True,
    "668dc82ff644": True,
    "74cf4c99a00c": False,  # an amount alone does not make a payment
    "7bea5f8ba675": True,
    "84440a948516": True,
    "8dd12cce0225": True,
    "8e3e225f100f": True,
    "8ee06a81952b": False,  # a dump does not say what kind of file it is
    "902c259c19c7": True,
    "941ecd64a844": True,
    "9a516b2042c0": True,
    "9e9720fd2628": True,
    "a67fb43561f4": True,
    "ad0d71cb8d84": True,
    "b0471d97c28d": True,
    "b6c5a149c281": True,
    "be8554521bb9": True,
    "bf04778c8f6c": True,
    "c26a9605b4df": True,
    "c368d5251491": True,
    "d091d7ec82bb": True,
    "d522b1bb31f1": True,
    "d62a1659141a": True,
    "ecb691f799f4": True,
    "f50e57190341": True,
}
