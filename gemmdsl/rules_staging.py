"""Rules on shared memory: how a tile lies in it, how wide its accesses are, how it is buffered."""

from __future__ import annotations

from itertools import pairwise

from gemmdsl.rules_case import Case, Findings, rule
from gemmdsl.spec import Schedule, Stage, StagedName


@rule(
    "G303",
    "stage needs block BM x BN x BK",
    "stage {name} has options, but without a K extent in `block` nothing is staged",
    ("vector", "load", "store", "read", "transpose", "pad", "swizzle", "block"),
)
def stage_needs_k(case: Case) -> Findings:
    if not case.schedule.staged:
        for name, stage in (("A", case.schedule.stage_a), ("B", case.schedule.stage_b)):
            if stage != Stage():
                given = [
                    word
                    for word in ("transpose", "pad", "swizzle", "load", "store", "read")
                    if getattr(stage, word) != getattr(Stage(), word)
                ]
                yield (*(f"{name}.{word}" for word in given), "block"), {"name": name}


@rule(
    "G304",
    "tile extent along the operand's contiguous axis % load == 0",
    "loads of {name} are {load} wide, but its tile has extent {extent} along {axis}",
    ("load", "block"),
)
def load_width(case: Case) -> Findings:
    for name, stage, tile in case.staged:
        if tile.load_extent % max(1, stage.load):
            axis = case.problem.operand(name).contiguous
            values = {"name": name, "load": stage.load, "axis": axis, "extent": tile.load_extent}
            yield (f"{name}.load", "block"), values


@rule(
    "G305",
    "transpose: store == 1",
    "{name} is transposed on its way, so that its stores cannot be {store} wide",
    ("store", "transpose"),
)
def transposed_store(case: Case) -> Findings:
    for name, stage, _ in case.staged:
        if stage.transpose and stage.store > 1:
            yield (f"{name}.store", f"{name}.transpose"), {"name": name, "store": stage.store}


@rule(
    "G306",
    "no transpose: load % store == 0",
    "{name} arrives {load} wide and cannot be stored {store} wide",
    ("store", "load"),
)
def store_width(case: Case) -> Findings:
    for name, stage, _ in case.staged:
        if not stage.transpose and stage.load % max(1, stage.store):
            yield (f"{name}.store", f"{name}.load"), {"name": name, "store": stage.store, "load": stage.load}


@rule(
    "G307",
    "read > 1 needs rows along K in shared memory",
    "reads of {name} are {read} wide, but its shared rows do not lie along {axis}: {change}",
    ("read", "transpose"),
)
def read_order(case: Case) -> Findings:
    for name, stage, tile in case.staged:
        if stage.read > 1 and not tile.k_outer:
            axis = "M" if name == "A" else "N"
            values = {
                "name": name,
                "read": stage.read,
                "axis": axis,
                "change": f"drop `transpose` from stage {name}"
                if stage.transpose
                else f"add `transpose` to stage {name}",
            }
            yield (f"{name}.read", f"{name}.transpose"), values


@rule(
    "G308",
    "piece % read == 0, along M for A and N for B",
    "reads of {name} are {read} wide, but a thread reads pieces of {piece} along {axis}",
    ("read", "thread"),
    needs=("G205",),
)
def read_width(case: Case) -> Findings:
    for name, stage, tile in case.staged:
        piece = case.schedule.piece_m if name == "A" else case.schedule.piece_n
        if tile.k_outer and piece % max(1, stage.read):
            values = {"name": name, "read": stage.read, "axis": "M" if name == "A" else "N", "piece": piece}
            yield (f"{name}.read", "thread"), values


@rule(
    "G309",
    "(shared row + pad) % max(store, read) == 0",
    "rows of {name} are {cols} + {pad} = {row} long, which misaligns {access}s of {width}",
    ("pad", "store", "read", "block"),
    needs=("G306", "G308"),
)
def row_alignment(case: Case) -> Findings:
    for name, stage, tile in case.staged:
        # A store or read that breaks its own rule makes no demand on the row.
        store = 1 if stage.transpose else stage.store
        read = stage.read if tile.k_outer else 1
        width = max(store, read)
        if tile.row_length % max(1, width):
            access = "store" if store >= read else "read"
            values = {
                "name": name,
                "cols": tile.cols,
                "pad": tile.pad,
                "row": tile.row_length,
                "width": width,
                "access": access,
            }
            yield (f"{name}.pad", f"{name}.{access}", "block"), values


@rule(
    "G310",
    "swizzle: pad == 0",
    "rows of {name} are swizzled and also padded by {pad}",
    ("pad", "swizzle"),
)
def swizzle_pad(case: Case) -> Findings:
    for name, stage, _ in case.staged:
        if stage.swizzle and stage.pad:
            yield (f"{name}.pad", f"{name}.swizzle"), {"name": name, "pad": stage.pad}


@rule(
    "G311",
    "swizzle: shared row / max(store, read) is a power of two, 2 or more",
    "rows of {name} hold {cols} elements, which cannot be swizzled in units of {unit}",
    ("swizzle", "read", "store", "block"),
    needs=("G305", "G306", "G307", "G308"),
)
def swizzle_units(case: Case) -> Findings:
    for name, stage, tile in case.staged:
        if stage.swizzle and not tile.swizzles(stage.unit):
            values = {"name": name, "cols": tile.cols, "unit": stage.unit}
            yield (f"{name}.swizzle", f"{name}.read", f"{name}.store", "block"), values


@rule(
    "G402",
    "buffers > 1 and async need block BM x BN x BK",
    "`{buffers}` needs a K extent in `block`: nothing is staged",
    ("buffers", "block"),
)
def buffers_need_k(case: Case) -> Findings:
    s = case.schedule
    if not s.staged and (s.buffers > 1 or s.asynchronous):
        yield ("buffers", "block"), {"buffers": _buffers(s)}


@rule(
    "G403",
    "buffers without async: 1 or 2",
    "{buffers} buffers without `async`: one tile is prefetched through registers, which takes 2",
    ("buffers",),
)
def ping_pong(case: Case) -> Findings:
    if not case.schedule.asynchronous and case.schedule.buffers > 2:
        yield ("buffers",), {"buffers": case.schedule.buffers}


@rule(
    "G404",
    "async: buffers >= 2",
    "asynchronous copies into {buffers} buffer would overwrite the tile in use",
    ("buffers",),
)
def async_depth(case: Case) -> Findings:
    if case.schedule.asynchronous and case.schedule.buffers < 2:
        yield ("buffers",), {"buffers": case.schedule.buffers}


@rule(
    "G405",
    "async: target sm_80 or later",
    "{target} has no asynchronous copies",
    ("buffers",),
)
def async_target(case: Case) -> Findings:
    if case.schedule.asynchronous and not case.target.async_copy:
        yield ("buffers", "target"), {"target": case.target.name}


@rule(
    "G406",
    "async, no transpose: store == load",
    "asynchronous copies of {name} load {load} wide and cannot store {store} wide",
    ("store", "load", "buffers"),
    needs=("G306",),
)
def async_width(case: Case) -> Findings:
    if case.schedule.asynchronous:
        for name, stage, _ in case.staged:
            if not stage.transpose and stage.store != stage.load:
                values = {"name": name, "store": stage.store, "load": stage.load}
                yield (f"{name}.store", f"{name}.load", "buffers"), values


@rule(
    "G407",
    "async, transpose: load == 1",
    "asynchronous copies of {name} are {load} wide and cannot transpose on the way: say `load vector 1`",
    ("load", "transpose", "buffers"),
)
def async_transpose(case: Case) -> Findings:
    if case.schedule.asynchronous:
        for name, stage, _ in case.staged:
            if stage.transpose and stage.load != 1:
                yield (f"{name}.load", f"{name}.transpose", "buffers"), {"name": name, "load": stage.load}


@rule(
    "G409",
    "fragments 2 needs block BM x BN x BK",
    "`fragments {fragments}` needs a K extent in `block`: nothing is staged",
    ("fragments", "block"),
)
def fragments_need_k(case: Case) -> Findings:
    if not case.schedule.staged and case.schedule.fragments > 1:
        yield ("fragments", "block"), {"fragments": case.schedule.fragments}


@rule(
    "G410",
    "fragments 2: block_k % 2 == 0",
    "two sets of fragments take turns, but the block tile has an odd number of steps along K: {steps}",
    ("fragments", "block"),
)
def fragment_turns(case: Case) -> Findings:
    if case.schedule.fragments > 1 and case.schedule.block_k % 2:
        yield ("fragments", "block"), {"steps": case.schedule.block_k}


@rule(
    "G411",
    "fragments 2: buffers >= 2",
    "the last step of a tile reads the first fragments of the next one, which one buffer does not hold yet",
    ("fragments", "buffers"),
)
def fragments_ahead(case: Case) -> Findings:
    if case.schedule.staged and case.schedule.fragments > 1 and case.schedule.buffers < 2:
        yield ("fragments", "buffers"), {}


@rule(
    "G412",
    "at >= 1, or several steps, need fragments 2",
    "copies cannot be issued{steps}: with one set of fragments the steps of a tile are one loop",
    ("buffers", "fragments"),
)
def steps_need_fragments(case: Case) -> Findings:
    steps = case.schedule.copy_steps
    several = max(len(steps.a), len(steps.b)) > 1
    if (several or max(steps.all) > 0) and case.schedule.fragments == 1:
        yield ("buffers", "fragments"), {"steps": str(case.schedule.copy_steps)}


@rule(
    "G413",
    "0 <= at <= block_k - 2",
    "copies cannot be issued at step {step}: they are issued at one of steps 0 to {last}",
    ("buffers", "block"),
)
def copy_step_range(case: Case) -> Findings:
    s = case.schedule
    last = max(0, s.block_k - 2)
    # Without a second set of fragments a step other than 0 is a finding of its own.
    wrong = (step for step in s.copy_steps.all if step < 0 or (s.fragments > 1 and step > last))
    if s.staged and (step := next(wrong, None)) is not None:
        yield ("buffers", "block"), {"step": step, "last": last}


@rule(
    "G424",
    "at: steps ascend",
    "copies of {name} cannot be issued at step {step} after those at step {before}",
    ("buffers",),
)
def copy_steps_ascend(case: Case) -> Findings:
    names: tuple[StagedName, ...] = ("A", "B")
    for name in names:
        steps = case.schedule.copy_steps.of(name)
        for before, step in pairwise(steps):
            if step < before:
                yield ("buffers",), {"name": name, "before": before, "step": step}
                break


@rule(
    "G425",
    "at: no more steps than words of the tile for a thread",
    "{steps} steps issue copies of {name}, of which a thread has {words} words in each K tile",
    ("buffers", "block"),
)
def copy_steps_have_copies(case: Case) -> Findings:
    s = case.schedule
    for name, _, tile in case.staged:
        steps, words = len(s.copy_steps.of(name)), -(-tile.rows * tile.cols // max(1, s.threads))
        if steps > words:
            yield ("buffers", "block"), {"name": name, "steps": steps, "words": words}


@rule(
    "G415",
    "unroll needs block BM x BN x BK",
    "`unroll {steps}` needs a K extent in `block`: without one there are no steps of a tile",
    ("unroll", "block"),
)
def unroll_needs_k(case: Case) -> Findings:
    if case.schedule.unroll is not None and not case.schedule.staged:
        yield ("unroll", "block"), {"steps": case.schedule.unroll}


@rule(
    "G416",
    "block_k % unroll == 0",
    "the block tile has {depth} steps along K, which are no multiple of {steps}",
    ("unroll", "block"),
)
def unroll_divides(case: Case) -> Findings:
    s = case.schedule
    if s.unroll is not None and s.block_k % max(1, s.unroll):
        yield ("unroll", "block"), {"depth": s.block_k, "steps": s.unroll}


@rule(
    "G417",
    "fragments 2: unroll % 2 == 0",
    "two sets of fragments take turns, but an odd number of steps is unrolled: {steps}",
    ("unroll", "fragments"),
)
def unrolled_turns(case: Case) -> Findings:
    s = case.schedule
    if s.unroll is not None and s.fragments > 1 and s.unroll % 2:
        yield ("unroll", "fragments"), {"steps": s.unroll}


@rule(
    "G422",
    "split_k 2 or more needs block BM x BN x BK",
    "`split_k {parts}` needs a K extent in `block`: parts of K are whole tiles",
    ("split_k", "block"),
)
def splits_need_k(case: Case) -> Findings:
    if not case.schedule.staged and case.schedule.split_k > 1:
        yield ("split_k", "block"), {"parts": case.schedule.split_k}


@rule(
    "G423",
    "atomic: split_k >= 2",
    "`split_k {parts} atomic` splits nothing, so that there is nothing to add up",
    ("split_k",),
)
def atomic_needs_parts(case: Case) -> Findings:
    if case.schedule.split_atomic and case.schedule.split_k < 2:
        yield ("split_k",), {"parts": case.schedule.split_k}


STAGING = (
    stage_needs_k,
    load_width,
    transposed_store,
    store_width,
    read_order,
    read_width,
    row_alignment,
    swizzle_pad,
    swizzle_units,
    buffers_need_k,
    ping_pong,
    async_depth,
    async_target,
    async_width,
    async_transpose,
    fragments_need_k,
    fragment_turns,
    fragments_ahead,
    steps_need_fragments,
    copy_step_range,
    copy_steps_ascend,
    copy_steps_have_copies,
    unroll_needs_k,
    unroll_divides,
    unrolled_turns,
    splits_need_k,
    atomic_needs_parts,
)


def _buffers(schedule: Schedule) -> str:
    return f"buffers {schedule.buffers}{' async' * schedule.asynchronous}"
