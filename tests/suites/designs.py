"""Small kernels that together turn every pass on and off, for any layout of the operands."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from gemmdsl.rules import violations
from gemmdsl.rules_options import Options, StageOptions, derive
from gemmdsl.spec import CopySteps, LaneOrder, Operand, Order, Problem, Spec
from gemmdsl.target import TARGETS

Design = Callable[[Problem], Options]
LAYOUTS = {"NN": "row row", "NT": "row col", "TN": "col row", "TT": "col col"}


def problem(layout: str, c_order: Order = Order.ROW, alpha: bool = True, beta: bool = True) -> Problem:
    """C = alpha * A @ B + beta * C with A and B row- (N) or column-major (T)."""
    a, b = (Order(word) for word in LAYOUTS[layout].split())
    return Problem(
        f"gemm_{layout.lower()}",
        Operand("A", "M", "K", a),
        Operand("B", "K", "N", b),
        Operand("C", "M", "N", c_order),
        alpha,
        beta,
    )


def outer(problem: Problem, **words: object) -> dict[str, StageOptions]:
    """Stages of A and B whose shared rows lie along K, transposed where memory has it otherwise."""
    return {
        name.lower(): StageOptions(transpose=problem.operand(name).contiguous == "K", **words)  # type: ignore[arg-type]
        for name in ("A", "B")
    }


def _async(problem: Problem, width: int, **words: object) -> dict[str, StageOptions]:
    """The same for asynchronous copies, which move single words where they transpose."""
    return {
        name.lower(): StageOptions(
            load=1 if problem.operand(name).contiguous == "K" else width,
            transpose=problem.operand(name).contiguous == "K",
            **words,  # type: ignore[arg-type]
        )
        for name in ("A", "B")
    }


DESIGNS: dict[str, Design] = {
    "naive": lambda p: Options((8, 8)),
    "naive_blocked": lambda p: Options((16, 8), thread=(2, 2), c_vector=2, min_blocks=2),
    "shared": lambda p: Options((8, 4, 4)),
    "column": lambda p: Options((16, 8, 3), thread=(4, 1)),
    "padded": lambda p: Options((16, 8, 4), thread=(4, 2), a=StageOptions(pad=1), b=StageOptions(pad=3)),
    "vectors": lambda p: Options((16, 8, 4), thread=(4, 4), c_vector=4, **outer(p, vector=4)),
    "ping_pong": lambda p: Options(
        (16, 8, 4), thread=(4, 4), c_vector=4, buffers=2, **outer(p, vector=4, pad=4)
    ),
    "pieces": lambda p: Options(
        (16, 8, 2), thread=(4, 4), piece=(2, 2), c_vector=2, buffers=2, **outer(p, vector=2, pad=2)
    ),
    "warps": lambda p: Options((32, 8, 4), warp=(16, 8), lanes=(8, 4), thread=(2, 2), buffers=2),
    "paired": lambda p: Options(
        (16, 16, 4),
        warp=(16, 8),
        lanes=(4, 8),
        lane_order=LaneOrder.PAIRED,
        thread=(4, 1),
        **outer(p, pad=1),
    ),
    "async_two": lambda p: Options((16, 8, 4), thread=(2, 2), buffers=2, asynchronous=True),
    "async_four": lambda p: Options(
        (16, 8, 4), thread=(4, 2), c_vector=2, buffers=4, asynchronous=True, **_async(p, 4, pad=4)
    ),
    "swizzled": lambda p: Options((16, 8, 4), thread=(4, 4), **outer(p, vector=4, swizzle=True)),
    "odd": lambda p: Options(
        (12, 10, 3), thread=(6, 5), piece=(3, 5), fma_along="M", fma_snake=True, raster=3
    ),
    "turns": lambda p: Options(
        (16, 8, 4),
        thread=(4, 4),
        buffers=3,
        asynchronous=True,
        copy_steps=CopySteps((0, 2), (1,)),
        fragments=2,
        read_first="B",
        unroll=2,
        **_async(p, 4),
    ),
    "parts": lambda p: Options((16, 8, 4), thread=(4, 4), split_k=3),
    "parts_atomic": lambda p: Options((16, 8, 4), thread=(4, 4), c_vector=4, split_k=3, split_atomic=True),
}


def spec(name: str, layout: str, c_order: Order = Order.ROW) -> Spec:
    """The design for a layout, checked against the rules."""
    wanted, target = problem(layout, c_order), TARGETS["sm_80"]
    schedule = derive(name, DESIGNS[name](wanted), wanted)
    broken = [violation.message for violation in violations(schedule, wanted, target)]
    assert not broken, broken
    return Spec(wanted, schedule, target, "designs.gemm")


def all_specs() -> list[Spec]:
    return [spec(name, layout) for name, layout in product(DESIGNS, LAYOUTS)]
