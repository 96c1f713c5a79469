"""What can go wrong with a tool outside gemmdsl; codes `G901` to `G908`."""

from __future__ import annotations

from gemmdsl.diagnostics import Diagnostic, GemmError, Note
from gemmdsl.resources import installs

# The code by which others tell what is missing from what fails.
NOT_FOUND = "G901"

_TOOLKIT = "install the CUDA toolkit 12.0 or later and set CUDA_HOME"
_INSTALL = f"{installs('cuda')}, or {_TOOLKIT}"
# Not in a wheel, or not in one that the extra asks for.
_ELSEWHERE = {
    "compute-sanitizer": f"pip install nvidia-cuda-sanitizer-api, or {_TOOLKIT}",
    "ncu": f"it comes with the toolkit: {_TOOLKIT}",
}


class ToolError(GemmError):
    """A tool that is needed is missing, too old, or did not do its work."""

    def __init__(self, code: str, message: str, **notes: str) -> None:
        """Each keyword is a note's label, an underscore in it a space."""
        labelled = tuple(Note(label.replace("_", " "), text) for label, text in notes.items())
        super().__init__([Diagnostic(code, message, notes=labelled)])


def not_found(name: str, places: str) -> ToolError:
    """No place has the tool."""
    return ToolError(NOT_FOUND, f"{name} was not found", searched=places, help=_ELSEWHERE.get(name, _INSTALL))


def too_old(name: str, path: str, release: str, oldest: str) -> ToolError:
    """The tool is older than gemmdsl's CUDA needs, or does not tell its release."""
    cuda = "" if name in _ELSEWHERE else "CUDA "
    found = f"is of {cuda}{release}" if release else "does not tell its release"
    needed = f"{name} of {cuda}{oldest} or later is needed"
    return ToolError("G902", f"{path} {found}; {needed}", help=_ELSEWHERE.get(name, _INSTALL))


def cannot_start(path: str, reason: str) -> ToolError:
    """The system refuses to run the tool."""
    return ToolError("G903", f"cannot run {path}: {reason}", help=_INSTALL)


def unsupported_target(target: str, compiler: str, known: str) -> ToolError:
    """The compiler knows other targets."""
    return ToolError(
        "G904",
        f"{compiler} cannot compile for {target}",
        targets_it_knows=known,
        help="choose one of them with --target, or use another release of the CUDA toolkit",
    )


def refused(tool: str, subject: str, status: int, messages: str) -> ToolError:
    """The tool ended with an error; `messages` is what it wrote."""
    ended = f"exit status {status}" if status >= 0 else f"ended by signal {-status}"
    return ToolError("G905", f"{tool} failed on {subject} ({ended})", it_said=messages or "nothing")


def timed_out(tool: str, seconds: float) -> ToolError:
    """The tool was stopped."""
    return ToolError("G906", f"{tool} was stopped: it had not finished after {seconds:g} seconds")


def no_host_compiler(messages: str) -> ToolError:
    """nvcc found no C++ compiler that it can work with."""
    return ToolError(
        "G907",
        "nvcc needs a C++ compiler for its host code and found none that it supports",
        it_said=messages,
        help="install g++ or clang++, or name one in NVCC_CCBIN",
    )


def no_workspace(reason: str) -> ToolError:
    """There is no place for intermediate files."""
    return ToolError("G908", f"cannot make a folder for temporary files: {reason}", help="set TMPDIR")
