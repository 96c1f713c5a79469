"""Specs and options written as `.gemm` text, so that what was drawn at random can be kept as a file.

The words are printed in the language's standard order; reading the text gives the same Spec again.
"""

from __future__ import annotations

from gemmdsl.rules_options import Extents, Options, StageOptions
from gemmdsl.spec import LaneOrder, Operand, Order, Problem, Schedule, Spec, Stage

_INDENT = "  "


def spec_text(spec: Spec) -> str:
    """A file with the spec's problem and schedule, every word written out."""
    schedule = spec.schedule
    return program_text(
        spec.problem, {schedule.name: (options_of(schedule), spec.target.name)}, spec.language
    )


def program_text(problem: Problem, schedules: dict[str, tuple[Options, str]], language: int = 1) -> str:
    """A file with one problem and schedules, each given as its words and the name of its target."""
    blocks = [f"gemm {language}", _problem(problem)]
    for name, (options, target) in schedules.items():
        lines = [f"{_INDENT}{line}" for line in _words(options)]
        blocks.append("\n".join([f"schedule {name} for {problem.name} on {target} {{", *lines, "}"]))
    return "\n\n".join(blocks) + "\n"


def options_of(schedule: Schedule) -> Options:
    """The words that give a resolved schedule: nothing is left to be derived."""
    s = schedule
    return Options(
        block=(s.block_m, s.block_n, s.block_k) if s.staged else (s.block_m, s.block_n),
        warp=s.warp,
        lanes=s.lanes,
        lane_order=s.lane_order,
        thread=(s.thread_m, s.thread_n),
        piece=(s.piece_m, s.piece_n),
        a=_stage_options(s.stage_a) if s.staged else StageOptions(),
        b=_stage_options(s.stage_b) if s.staged else StageOptions(),
        c_vector=s.c_vector,
        buffers=s.buffers,
        asynchronous=s.asynchronous,
        copy_steps=s.copy_steps,
        fragments=s.fragments,
        read_first=s.read_first,
        fma_along=s.fma_along,
        fma_snake=s.fma_snake,
        unroll=s.unroll,
        raster=s.raster,
        raster_along=s.raster_along,
        min_blocks=s.min_blocks or None,
        split_k=s.split_k,
        split_atomic=s.split_atomic,
        assumptions=s.assumptions,
    )


def _stage_options(stage: Stage) -> StageOptions:
    return StageOptions(
        load=stage.load,
        store=stage.store,
        read=stage.read,
        transpose=stage.transpose,
        pad=stage.pad,
        swizzle=stage.swizzle,
    )


def _problem(problem: Problem) -> str:
    product = f"{'alpha * ' * problem.alpha}A @ B{' + beta * C' * problem.beta}"
    lines = [_operand(problem.a), _operand(problem.b), f"{_operand(problem.c)} = {product}"]
    return "\n".join([f"problem {problem.name} {{", *(_INDENT + line for line in lines), "}"])


def _operand(operand: Operand) -> str:
    order = " col" if operand.order is Order.COLUMN else ""
    return f"{operand.name}: {operand.dtype}[{operand.rows}, {operand.cols}]{order}"


def _words(options: Options) -> list[str]:
    words = [f"block {_x(options.block)}"]
    if options.warp is not None:
        words.append(f"warp {_x(options.warp)}")
    if options.lanes is not None:
        order = "" if options.lane_order is LaneOrder.ROW else f" {options.lane_order.value}"
        words.append(f"lanes {_x(options.lanes)}{order}")
    if options.thread is not None:
        piece = options.piece
        words.append(f"thread {_x(options.thread)}" + (f" as {_x(piece)}" if piece else ""))
    words += [
        f"stage {name} {{ {' '.join(items)} }}"
        for name, stage in (("A", options.a), ("B", options.b))
        if (items := _items(stage))
    ]
    if options.c_vector is not None:
        words.append(f"store C {{ vector {options.c_vector} }}")
    if options.buffers is not None:
        words.append(f"buffers {options.buffers}{' async' * options.asynchronous}{options.copy_steps}")
    if options.fragments is not None:
        first = "" if options.read_first == "A" else f" {options.read_first} first"
        words.append(f"fragments {options.fragments}{first}")
    if options.fma_along is not None:
        words.append(f"fma along {options.fma_along}{' snake' * options.fma_snake}")
    if options.unroll is not None:
        words.append(f"unroll {options.unroll}")
    if options.raster is not None:
        along = "" if options.raster_along == "M" else f" along {options.raster_along}"
        words.append(f"raster {options.raster}{along}")
    if options.min_blocks is not None:
        words.append(f"min_blocks {options.min_blocks}")
    if options.split_k is not None:
        words.append(f"split_k {options.split_k}{' atomic' * options.split_atomic}")
    return words + [f"assume {assumption}" for assumption in options.assumptions]


def _items(stage: StageOptions) -> list[str]:
    items = [] if stage.vector is None else [f"vector {stage.vector}"]
    for access in ("load", "store", "read"):
        if (width := getattr(stage, access)) is not None:
            items.append(f"{access} vector {width}")
    if stage.transpose:
        items.append("transpose")
    if stage.pad is not None:
        items.append(f"pad {stage.pad}")
    if stage.swizzle:
        items.append("swizzle")
    return items


def _x(extents: Extents) -> str:
    return " x ".join(map(str, extents))
