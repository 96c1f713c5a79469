"""Times pieces of work against one another: in turns, batch by batch, so that a change of clocks meets all.

A batch is many calls between two events.  Where cuda-bindings is installed a batch is a CUDA graph: launching
short kernels one by one would measure the launching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from gemmdsl.diagnostics import GemmError
from gemmdsl.runtime.bindings import bindings, called
from gemmdsl.runtime.device import Gpu, Handle

# Puts one call into a stream; the number tells which set of buffers to use.
Enqueue = Callable[[int], None]
_MOST_CALLS = 400
_WARM_UPS = 2


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds per call, one number for each batch of `calls` calls; `graph` says how they were launched."""

    seconds: tuple[float, ...]
    calls: int
    graph: bool

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def spread(self) -> float:
        """Slowest less fastest batch, as a share of the median."""
        return (max(self.seconds) - min(self.seconds)) / self.median


def interleaved(
    gpu: Gpu,
    stream: Handle,
    works: Mapping[str, Enqueue],
    *,
    batches: int,
    batch_seconds: float,
    sets: int = 1,
    graphs: bool = True,
) -> dict[str, Samples]:
    """Samples of each work, whose batches take `batch_seconds` or one call.

    Each batch goes round all `sets` of buffers at least once, if it has so many calls; without `graphs`, or
    where a work cannot be captured, all of them are launched one by one, for fairness.
    """
    runs = _recorded(gpu, stream, works, batch_seconds, sets, graphs and bindings() is not None)
    found: dict[str, list[float]] = {name: [] for name in works}
    order = list(works)
    for _ in range(batches):
        for name in order:
            found[name].append(_seconds(gpu, stream, runs[name].launch) / runs[name].calls)
        # Nobody is always first.
        order.reverse()
    for run in runs.values():
        run.drop()
    return {name: Samples(tuple(times), runs[name].calls, runs[name].graph) for name, times in found.items()}


@dataclass(frozen=True, slots=True)
class _Batch:
    """What to launch for one batch, and what to do once it is not needed any more."""

    launch: Callable[[], None]
    calls: int
    graph: bool
    drop: Callable[[], None]


def _recorded(
    gpu: Gpu,
    stream: Handle,
    works: Mapping[str, Enqueue],
    batch_seconds: float,
    sets: int,
    graphs: bool,
) -> dict[str, _Batch]:
    counts: dict[str, int] = {}
    for name, enqueue in works.items():
        for turn in range(_WARM_UPS):
            enqueue(turn % sets)
        once = _seconds(gpu, stream, lambda enqueue=enqueue: enqueue(0))  # type: ignore[misc]
        counts[name] = max(1, min(_MOST_CALLS, round(batch_seconds / max(once, 1e-9))))
    if graphs:
        made: dict[str, _Batch] = {}
        try:
            for name, enqueue in works.items():
                made[name] = _graph(gpu, stream, enqueue, counts[name], sets)
                _seconds(gpu, stream, made[name].launch)
            return made
        except (GemmError, RuntimeError):
            for batch in made.values():
                batch.drop()
    return {
        name: _Batch(_loop(enqueue, counts[name], sets), counts[name], False, lambda: None)
        for name, enqueue in works.items()
    }


def _loop(enqueue: Enqueue, calls: int, sets: int) -> Callable[[], None]:
    def launch() -> None:
        for turn in range(calls):
            enqueue(turn % sets)

    return launch


def _graph(gpu: Gpu, stream: Handle, enqueue: Enqueue, calls: int, sets: int) -> _Batch:
    """A CUDA graph of a batch; GemmError, or what `enqueue` raises, when it cannot be captured."""
    cuda = bindings()
    handle = cuda.CUstream(stream.handle)
    with gpu.current():
        with _capture(cuda, handle) as captured:
            _loop(enqueue, calls, sets)()
        graph = captured[0]
        ready = called(cuda.cuGraphInstantiate(graph, 0))
        called(cuda.cuGraphDestroy(graph))

    def launch() -> None:
        called(cuda.cuGraphLaunch(ready, handle))

    def drop() -> None:
        with gpu.current():
            called(cuda.cuGraphExecDestroy(ready))

    return _Batch(launch, calls, True, drop)


@contextmanager
def _capture(cuda: Any, handle: Any) -> Iterator[list[Any]]:
    """Capture what is put into the stream; the graph is in the list afterwards."""
    found: list[Any] = []
    # Relaxed: libraries may allocate meanwhile.
    called(cuda.cuStreamBeginCapture(handle, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    try:
        yield found
    except BaseException:
        # The stream has to leave capture mode; the first error is the one to tell.
        cuda.cuStreamEndCapture(handle)
        raise
    found.append(called(cuda.cuStreamEndCapture(handle)))


def _seconds(gpu: Gpu, stream: Handle, launch: Callable[[], None]) -> float:
    begun, ended = gpu.event(), gpu.event()
    with gpu.current():
        begun.record(stream)
        launch()
        ended.record(stream)
        gpu.synchronize(stream)
        return float(ended.time_since(begun)) * 1e-3
