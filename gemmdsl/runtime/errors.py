"""What can go wrong on a GPU; codes `G940` to `G949`.

Arguments that do not fit are LaunchErrors, the same as those of the CPU emulator.
"""

from __future__ import annotations

from gemmdsl.diagnostics import Diagnostic, GemmError, Note
from gemmdsl.resources import installs

# Codes by which others tell these cases from the rest.
NO_PYCUDA = "G940"
NO_GPU = "G941"
UNSUPPORTED = "G944"

_DRIVER = "install a driver for the GPU, or use --device cpu (device='cpu' in Python)"


class GpuError(GemmError):
    """There is no usable GPU, it lacks something, or a kernel failed on it."""

    def __init__(self, code: str, message: str, help: str = "", said: str = "") -> None:
        """`said` is what the driver wrote."""
        notes = [Note(label, text) for label, text in (("the driver said", said), ("help", help)) if text]
        super().__init__([Diagnostic(code, message, notes=tuple(notes))])


def no_pycuda(reason: str) -> GpuError:
    """The package is missing, or its extension cannot be loaded."""
    return GpuError(
        NO_PYCUDA,
        f"running on a GPU needs pycuda: {reason}",
        help=installs("gpu"),
    )


def no_gpu(reason: str) -> GpuError:
    """The driver finds no device, or there is no driver."""
    return GpuError(NO_GPU, "no CUDA device can be used", help=_DRIVER, said=reason)


def no_such_gpu(index: int, count: int) -> GpuError:
    """An index beyond the last device."""
    devices = "1 device, number 0" if count == 1 else f"{count} devices, numbers 0 to {count - 1}"
    return GpuError(NO_GPU, f"there is no GPU {index}: this machine has {devices}")


def too_old_driver(launcher: str, compiler: str, driver: str, reason: str) -> GpuError:
    """The driver does not accept the cubin."""
    return GpuError(
        "G942",
        f"the driver does not load {launcher}: it supports CUDA {driver}, and {compiler} compiled the kernel",
        help="install a newer driver, or compile with an older toolkit (GEMMDSL_CUDA names its folder)",
        said=reason,
    )


def out_of_memory(what: str, wanted: int, free: int, device: str) -> GpuError:
    """An allocation was refused; sizes in bytes."""
    return GpuError(
        "G943",
        f"no memory on {device} for {what}: {_size(wanted)} are needed and {_size(free)} are free",
    )


def unsupported(launcher: str, device: str, lacking: str) -> GpuError:
    """The device lacks what the schedule was compiled for."""
    return GpuError(
        UNSUPPORTED,
        f"{launcher} does not run on {device}: {lacking}",
        help="choose a smaller or older target with --target, or change the schedule",
    )


def failed(kernel: str, schedule: str, reason: str) -> GpuError:
    """A kernel did not come to its end; CUDA then refuses all further work of this process."""
    return GpuError(
        "G945",
        f"kernel {kernel} of schedule {schedule} failed on the GPU",
        help="this process cannot use the GPU any more; find the access with gemmdsl test --sanitize",
        said=reason,
    )


def refused(doing: str, reason: str) -> GpuError:
    """Any other refusal of the driver."""
    return GpuError("G946", f"CUDA failed while {doing}", said=reason)


def no_stream(reason: str) -> GpuError:
    """A value that is no stream, or one that cannot be waited for."""
    return GpuError("G947", f"this stream cannot be used: {reason}")


def other_thread(device: str) -> GpuError:
    """A Gpu is used in a thread that did not open it, or after it was closed."""
    return GpuError(
        "G948",
        f"{device} was opened by another thread, or is closed",
        help="open a Gpu in each thread, or call gemmdsl.runtime.gpu(), which does",
    )


def _size(count: int) -> str:
    if count < 2**20:
        return f"{count} bytes"
    return f"{count / 2**20:.1f} MiB" if count < 2**30 else f"{count / 2**30:.1f} GiB"
