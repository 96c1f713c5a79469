"""Settings shared by every test."""

from __future__ import annotations

import os

from hypothesis import settings

# An example may start a compiler, so no deadline is meaningful; CI must fail for the same input each time.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
