"""What can go wrong before an emulated kernel runs; codes `G911` to `G914`, `G916` and `G917`."""

from __future__ import annotations

from gemmdsl.toolchain.errors import ToolError

# The code by which others tell a missing compiler from one that fails.
NO_COMPILER = "G911"

_INSTALL = "install g++ (9 or later) or clang++ (12 or later), or name a C++ compiler in CXX"


def no_compiler(searched: str) -> ToolError:
    """No C++ compiler on this machine."""
    return ToolError(
        NO_COMPILER,
        "running on the CPU needs a C++ compiler and none was found",
        searched=searched,
        help=_INSTALL,
    )


def cannot_start(command: str, reason: str) -> ToolError:
    """The system refuses to run the compiler."""
    return ToolError("G912", f"cannot run the C++ compiler {command}: {reason}", help=_INSTALL)


def refused(command: str, subject: str, messages: str) -> ToolError:
    """The compiler did not accept the text; `messages` is what it wrote."""
    return ToolError("G913", f"{command} did not compile {subject}", it_said=messages or "nothing")


def made_nothing(command: str, subject: str) -> ToolError:
    """What was called reports no error, and there is no file."""
    message = f"{command} did not compile {subject}: it reported no error and made no file"
    return ToolError("G913", message, help=_INSTALL)


def too_old(command: str, needed: str) -> ToolError:
    """The compiler lacks what the emulator is written with."""
    return ToolError("G917", f"the C++ compiler {command} is too old: {needed}", help=_INSTALL)


def timed_out(command: str, subject: str, seconds: float) -> ToolError:
    """The compiler was stopped."""
    return ToolError("G914", f"{command} was stopped: {subject} was not compiled after {seconds:g} seconds")


def cannot_load(path: str, reason: str) -> ToolError:
    """The system refuses the compiled library."""
    return ToolError("G916", f"cannot load the compiled kernel {path}: {reason}")
