"""The suites of recall explain their failures."""

import pytest

pytest.register_assert_rewrite("instar.memstore.recall.testing")
