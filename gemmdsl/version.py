"""The version of gemmdsl, for the build and for everything that says what made it."""

__version__ = "0.1.0"
