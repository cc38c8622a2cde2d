"""How many random cases a test tries.

`make test` tries few. `make test-cases` tries many, and so does `.ci/run`. The many include the few. `KAFKASEG_LONG`
tries still more.
"""

from __future__ import annotations

import os


def count_cases(few: int, many: int) -> int:
    """Returns the number of cases that the environment asks for (`KAFKASEG_CASES=many`)."""
    return many if os.environ.get("KAFKASEG_CASES") == "many" else few
