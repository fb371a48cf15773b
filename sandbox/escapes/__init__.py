"""Attempts to get out of a sandbox, as small functions: each answers with something
true when it got what it should not get.

They run inside a job, and outside in a plain process, where each must succeed: an attempt that works nowhere proves
nothing. `instar.sandbox.testing` runs them; `lure` is what it laid out on the host.
"""
