"""The kernels of `kernels.cu` on a GPU: operands, reference, comparison, ceilings."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gemmdsl.cubins import cached_cubin
from gemmdsl.runtime.device import Gpu, Handle
from gemmdsl.spec import Operand, Order

_FORMATS = {
    "gemmdsl_fill": "PlIi",
    "gemmdsl_reference": "iiiPllPllPP",
    "gemmdsl_check": "iiPllPPdddIP",
    "gemmdsl_peak": "Pif",
}
_THREADS = 256
_TILE = 32
# As in kernels.cu: FMAs per thread and round.
_PEAK_FMAS = 16 * 32
_COPY_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Tally:
    """What a comparison found: wrong elements, the first of them as (row, column), the largest error."""

    wrong: int
    first: tuple[int, int]
    largest: float


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What the device can do at most, measured: FMAs in registers, and a copy in its memory (bytes read plus
    bytes written); per second."""

    flops: float
    bytes: float


@cache
def text() -> str:
    """The CUDA text of the kernels."""
    return (Path(__file__).parent / "kernels.cu").read_text(encoding="utf-8")


def strides(operand: Operand, ld: int) -> tuple[int, int]:
    """Strides in elements of a matrix, row by row and column by column."""
    return (ld, 1) if operand.order is Order.ROW else (1, ld)


class Support:
    """The kernels, loaded."""

    def __init__(self, gpu: Gpu) -> None:
        """ToolError when they cannot be compiled, GpuError when they cannot be loaded."""
        self.gpu = gpu
        with gpu.current():
            self._module = gpu.load(cached_cubin(text(), gpu.limits.target).data)
            self._functions: dict[str, Any] = {}
            for name, pattern in _FORMATS.items():
                self._functions[name] = self._module.get_function(name)
                self._functions[name].prepare(pattern)
        self._tally = gpu.allocate(24, "a tally")

    def fill(self, address: int, count: int, seed: int, largest: int = 0) -> None:
        """Integers in [-largest, largest], or with 0 numbers in [-1, 1), from a seed."""
        self._start("gemmdsl_fill", self._many(count), address, count, seed, largest)

    def reference(
        self,
        shape: tuple[int, int, int],
        a: tuple[int, int, int],
        b: tuple[int, int, int],
        total: int,
        size: int,
    ) -> None:
        """A @ B and |A| @ |B| in double into `total` and `size`; operands are an address and two strides."""
        m, n, k = shape
        blocks = -(-m // _TILE) * -(-n // _TILE)
        if blocks:
            self._start("gemmdsl_reference", blocks, m, n, k, *a, *b, total, size)

    def check(
        self,
        shape: tuple[int, int],
        c: tuple[int, int, int],
        total: int,
        size: int,
        scalars: tuple[float, float],
        gamma: float,
        seed: int,
    ) -> Tally:
        """Compare C with the reference; `seed` is what C was filled from before."""
        tally = np.array([0, 2**63 - 1, 0], np.uint64)
        self.gpu.upload(int(self._tally), tally)
        m, n = shape
        words = (m, n, *c, total, size, *scalars, gamma, seed, int(self._tally))
        self._start("gemmdsl_check", self._many(m * n), *words)
        self.gpu.synchronize()
        self.gpu.download(tally, int(self._tally))
        wrong, first, bits = (int(word) for word in tally)
        largest = struct.unpack("<d", struct.pack("<Q", bits))[0]
        return Tally(wrong, divmod(first, n) if wrong else (0, 0), largest)

    def ceilings(self) -> Ceilings:
        """Measure both; about 50 milliseconds."""
        size = min(_COPY_BYTES, self.gpu.free_memory() // 4)
        origin, to = (self.gpu.allocate(size, "a copy") for _ in range(2))
        self.gpu.fill_words(int(origin), 0x3F800000, size // 4)
        blocks, rounds = 8 * self.gpu.limits.sms, 400

        def multiply() -> None:
            self._start("gemmdsl_peak", blocks, int(to), rounds, 0.5)

        def copy() -> None:
            self.gpu.copy(int(to), int(origin), size)

        flops = 2.0 * _PEAK_FMAS * rounds * _THREADS * blocks
        return Ceilings(flops / self._quickest(multiply), 2.0 * size / self._quickest(copy))

    def _quickest(self, work: Any) -> float:
        begun, ended = self.gpu.event(), self.gpu.event()
        times = []
        for _ in range(6):
            with self.gpu.current():
                begun.record()
                work()
                ended.record()
                ended.synchronize()
                times.append(ended.time_since(begun) * 1e-3)
        # The first one warms up.
        return float(min(times[1:]))

    def idle(self, stream: Handle) -> None:
        """Put a kernel into a stream that does nothing: what a launch costs."""
        self._start("gemmdsl_fill", 1, int(self._tally), 0, 0, 0, stream=stream)

    def _many(self, count: int) -> int:
        return max(1, min(32 * self.gpu.limits.sms, -(-count // _THREADS)))

    def _start(self, name: str, blocks: int, *words: float, stream: Handle = None) -> None:
        with self.gpu.current():
            self._functions[name].prepared_async_call((blocks, 1, 1), (_THREADS, 1, 1), stream, *words)
