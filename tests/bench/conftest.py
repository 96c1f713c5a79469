"""The same fake machine as in the tests of the runtime."""

from tests.runtime.conftest import world

__all__ = ["world"]
