"""What every folder of tests shares: contract suites explain their failures, whoever imports them first."""

import pytest

pytest.register_assert_rewrite(*(f"instar.memstore.testing_{part}" for part in ("writes", "reads", "care")))
