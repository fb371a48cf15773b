"""From evidence to requirement: what a second look at the same evidence does."""

from __future__ import annotations

from instar.core import records
from instar.core.learn import reflect
from instar.core.runtime import Runtime


def test_a_report_that_an_older_template_put_otherwise_is_kept_and_no_error(rt: Runtime) -> None:
    first = reflect(rt)
    page = rt.store.get(rt.principal, first.id)
    assert page is not None
    with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
        batch.replace(first.id, content=page.content, text="as an older template put it", expect=page.version)
    assert reflect(rt).id == first.id
    assert len(list(rt.store.find(rt.principal, scope=rt.settings.scope, kind=records.REFLECTION))) >= 1
