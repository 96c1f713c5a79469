"""The optimisations of the GEMM ladder, in order; each is a function Kernel -> Kernel in its own module.

A pass returns the very kernel it was given when its option is not asked for.  Every kernel that a pass
changed is proved anew before the next pass sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gemmdsl.ir import Kernel
from gemmdsl.lowering import lower
from gemmdsl.passes.async_copies import async_copies
from gemmdsl.passes.fma_order import fma_order
from gemmdsl.passes.fragments import fragments
from gemmdsl.passes.launch_bounds import launch_bounds
from gemmdsl.passes.pad import pad
from gemmdsl.passes.ping_pong import ping_pong
from gemmdsl.passes.raster import raster
from gemmdsl.passes.register_blocking import register_blocking
from gemmdsl.passes.specialise import specialise
from gemmdsl.passes.split_k import split_k
from gemmdsl.passes.stage_shared import stage_shared
from gemmdsl.passes.swizzle import swizzle
from gemmdsl.passes.transpose import transpose
from gemmdsl.passes.unroll import unroll
from gemmdsl.passes.vectorise import vectorise
from gemmdsl.passes.warp_tiling import warp_tiling
from gemmdsl.spec import Spec
from gemmdsl.verifier import Proofs, verify, verify_final

Pass = Callable[[Kernel], Kernel]

LOWERING = "lower"
PIPELINE: tuple[Pass, ...] = (
    register_blocking,
    warp_tiling,
    stage_shared,
    transpose,
    pad,
    swizzle,
    vectorise,
    ping_pong,
    async_copies,
    fma_order,
    fragments,
    unroll,
    raster,
    split_k,
    launch_bounds,
    specialise,
)


@dataclass(frozen=True, slots=True)
class Step:
    """The kernel after one pass, and what was proved of it."""

    name: str
    kernel: Kernel
    proofs: Proofs


def _made(spec: Spec) -> Iterator[tuple[str, Kernel]]:
    """The naive kernel, then the one that each pass made of the last, where it changed something."""
    kernel = lower(spec)
    yield LOWERING, kernel
    for apply in PIPELINE:
        changed = apply(kernel)
        if changed is not kernel:
            kernel = replace(changed, applied=(*kernel.applied, apply.__name__))
            yield apply.__name__, kernel


def build(spec: Spec) -> Kernel:
    """The finished kernel without its proofs: for models that compare many, of which few are compiled."""
    *_, (_, kernel) = _made(spec)
    return kernel


def steps(spec: Spec) -> tuple[Step, ...]:
    """The naive kernel, then one step for each pass that changed it; each kernel is proved.

    Raises ProofError if a proof fails, which is a compiler bug.
    """
    done = [Step(name, kernel, verify(kernel, name)) for name, kernel in _made(spec)]
    last = done[-1]
    done[-1] = replace(last, proofs=(*last.proofs, *verify_final(last.kernel, last.name)))
    return tuple(done)
