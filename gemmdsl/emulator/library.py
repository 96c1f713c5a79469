"""A compiled kernel in this process, called through ctypes."""

from __future__ import annotations

import ctypes
import weakref
from _ctypes import dlclose
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Literal

from gemmdsl.cuda_source import CudaSource, EntryPoint, Launch, Parameter, Status
from gemmdsl.emulator.builder import build, call_name
from gemmdsl.emulator.checker import SANITIZERS, Checker, Sanitizer
from gemmdsl.target import STATIC_SHARED_LIMIT, TARGETS

ThreadOrder = Literal["forward", "reversed", "seeded"]
Landing = Literal["late", "early"]
ORDERS: tuple[ThreadOrder, ...] = ("forward", "reversed", "seeded")
_CTYPES: dict[str, type[ctypes.c_int] | type[ctypes.c_float] | type[ctypes.c_void_p]] = {
    "int": ctypes.c_int,
    "float": ctypes.c_float,
}
# Each open library may keep a thousand mappings for fiber stacks; a process has some 65,000.
_MAX_OPEN = 8
# What even the slowest checked kernel does in a second of processor time, and what a block may take beside.
_SLOWEST_FMA_PER_SECOND = 4e6
_LEAST_SECONDS = 1.0
# Of cudaError_t.
_OUT_OF_MEMORY = 2
# Handlers of signals are the process's: of two libraries that run at once, one could take away the other's.
# And the checker looks at one launch at a time.
_launching = Lock()


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a grid is run.

    `order` is that of the threads between two barriers and of the blocks; `seed` is that of `seeded`.
    `landing` says when an asynchronous copy is done: as late as the program allows, or when issued.
    `workers` is the number of blocks that run at once; 0 is as many as there are processors, at most 8.
    A block that takes more than `seconds` of processor time ends the launch; None lets its work decide.
    Of a library with the checker, findings about anything else than `wanted` are passed over.
    With `refuse_memory` the call gets no memory for partial sums.
    """

    order: ThreadOrder = "forward"
    seed: int = 0
    landing: Landing = "late"
    workers: int = 0
    seconds: float | None = None
    wanted: tuple[Sanitizer, ...] = SANITIZERS
    refuse_memory: bool = False


class _Options(ctypes.Structure):
    """Mirrors gemm_emu::Options."""

    _fields_ = (
        ("order", ctypes.c_int32),
        ("early_copies", ctypes.c_int32),
        ("workers", ctypes.c_int32),
        ("limit_ms", ctypes.c_int32),
        ("catch_faults", ctypes.c_int32),
        ("refuse_memory", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("shared_limit", ctypes.c_int64),
        ("static_shared", ctypes.c_int64),
        ("optin_limit", ctypes.c_int64),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a launcher returned, the entry point it chose (None: it launched nothing), and why it failed.

    `calls` says how the places that the message names were reached; `functions` are those around the first
    of them, innermost first.
    """

    status: int
    entry: EntryPoint | None
    message: str
    calls: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()


class Library:
    """An open shared library; closed when nobody refers to it any more."""

    def __init__(self, source: CudaSource, path: Path, *, checked: bool = False) -> None:
        """OSError when the file is no library.  `checked` says that it was built with the checker."""
        self._source = source
        self._library = library = ctypes.CDLL(str(path))
        weakref.finalize(self, dlclose, library._handle)
        try:
            library.gemm_emu_message.restype = ctypes.c_char_p
            library.gemm_emu_kernel.restype = ctypes.c_void_p
            library.gemm_emu_allocate.restype = ctypes.c_void_p
            self._entries = {self._address(entry.name): entry for entry in source.plan.entries}
            self._checker = Checker(library, path, source, self._address) if checked else None
        except AttributeError as missing:
            raise OSError(f"{path} is not a compiled kernel: {missing}") from missing

    def launch(self, arguments: Mapping[str, float], options: RunOptions) -> Outcome:
        """Call the launcher; `arguments` are its parameters by name, addresses as integers."""
        with _launching:
            self._configure(options, arguments)
            plan = self._source.plan
            function = self._library[plan.launcher]
            return self._outcome(function(*_values(plan.parameters, arguments), ctypes.c_void_p(None)))

    def run_entry(self, entry: EntryPoint, arguments: Mapping[str, float], options: RunOptions) -> Outcome:
        """Run one entry point, and what a call launches around it, whether or not its conditions hold.

        The status is a cudaError value.
        """
        plan = self._source.plan
        m, n = int(arguments["M"]), int(arguments["N"])
        with _launching:
            self._configure(options, arguments)
            values, memory = dict(arguments), None
            if plan.workspace:
                memory = self._library.gemm_emu_allocate(ctypes.c_size_t(plan.workspace.size(m, n)))
                if memory is None:
                    return Outcome(_OUT_OF_MEMORY, None, "no memory for partial sums")
                values[plan.workspace.parameter.name] = memory
            status = 0
            for launch in plan.launches(entry, m, n):
                status = status or self._run(launch, values)
            if memory is not None:
                self._library.gemm_emu_release(ctypes.c_void_p(memory))
            return self._outcome(status)

    def run_kernel(self, launch: Launch, values: Mapping[str, float], options: RunOptions) -> Outcome:
        """Run one of the kernels of a call; `values` are its parameters by name.

        The status is a cudaError value.
        """
        with _launching:
            self._configure(options, values)
            return self._outcome(self._run(launch, values))

    def _run(self, launch: Launch, values: Mapping[str, float]) -> int:
        across, along, _ = launch.grid
        status: int = self._library[call_name(launch.name)](
            ctypes.c_uint(across),
            ctypes.c_uint(along),
            ctypes.c_uint(launch.threads),
            ctypes.c_size_t(launch.dynamic_shared_bytes),
            *_values(launch.parameters, values),
        )
        return status

    def _configure(self, options: RunOptions, arguments: Mapping[str, float]) -> None:
        plan = self._source.plan
        if self._checker:
            self._checker.watch(arguments, options.wanted)
        self._library.gemm_emu_configure(
            ctypes.byref(
                _Options(
                    order=ORDERS.index(options.order),
                    early_copies=options.landing == "early",
                    # What blocks add to one element must come in the same order every time.
                    workers=options.workers if plan.repeatable else 1,
                    limit_ms=int(1e3 * self._seconds(options, arguments)),
                    catch_faults=True,
                    refuse_memory=options.refuse_memory,
                    seed=options.seed % 2**64,
                    shared_limit=TARGETS[self._source.target].shared_per_block,
                    static_shared=plan.static_shared_bytes,
                    optin_limit=STATIC_SHARED_LIMIT,
                )
            )
        )

    def _seconds(self, options: RunOptions, arguments: Mapping[str, float]) -> float:
        if options.seconds is not None:
            return options.seconds
        plan = self._source.plan
        work = plan.block_m * plan.block_n * max(0.0, arguments.get("K", 0.0))
        return min(_LEAST_SECONDS + work / _SLOWEST_FMA_PER_SECOND, 1e6)

    def _outcome(self, status: int) -> Outcome:
        if status == 0 and self._checker and not self._checker.complete():
            status = int(Status.LAUNCH_FAILED)
        message = self._library.gemm_emu_message()
        text = message.decode(errors="replace")
        number = count()
        launched = iter(lambda: self._library.gemm_emu_kernel(ctypes.c_uint(next(number))), None)
        entry = next((self._entries[kernel] for kernel in launched if kernel in self._entries), None)
        if self._checker is None:
            return Outcome(status, entry, text)
        found = self._checker.located(text)
        return Outcome(status, entry, found.message, found.calls, found.functions)

    def _address(self, symbol: str) -> int:
        address = ctypes.cast(self._library[symbol], ctypes.c_void_p).value
        assert address is not None
        return address


def _values(
    parameters: tuple[Parameter, ...], arguments: Mapping[str, float]
) -> list[ctypes.c_int | ctypes.c_float | ctypes.c_void_p]:
    values = []
    for parameter in parameters:
        ctype = _CTYPES.get(parameter.ctype, ctypes.c_void_p)
        values.append(ctype(arguments[parameter.name]))  # type: ignore[arg-type]
    return values


_open: OrderedDict[tuple[str, ...], Library] = OrderedDict()
_lock = Lock()


def load(source: CudaSource, *, cached: bool = True, checked: bool = False) -> Library:
    """The compiled kernel, kept open for the next call; with the checker or not.

    Without `cached` nothing is written to the folder of compiled kernels, for kernels that are run once.
    Errors as those of `gemmdsl.emulator.builder.build`.
    """
    key = (source.text, source.target, repr(source.plan), str(checked))
    with _lock:
        if library := _open.get(key):
            _open.move_to_end(key)
            return library
    library = build(
        source, lambda path: Library(source, path, checked=checked), cached=cached, checked=checked
    )
    with _lock:
        _open[key] = library
        while len(_open) > _MAX_OPEN:
            _open.popitem(last=False)
    return library
