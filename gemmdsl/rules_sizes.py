"""Rules on single values: each within its bounds."""

from __future__ import annotations

from gemmdsl.rules_case import Case, Findings, rule
from gemmdsl.spec import WIDTHS

MAX_BLOCK_SIDE = 1024
MAX_BLOCK_K = 256
MAX_PAD = 64
MAX_BUFFERS = 16
MAX_FRAGMENTS = 2
MAX_RASTER = 64
MAX_MIN_BLOCKS = 32
MAX_MULTIPLE = 65536
MAX_SPLITS = 512


@rule(
    "G201",
    f"1 <= block_m, block_n <= {MAX_BLOCK_SIDE}",
    "block tile has extent {extent} along {axis}",
    ("block",),
    basic=True,
)
def block_side(case: Case) -> Findings:
    for axis, extent in (("M", case.schedule.block_m), ("N", case.schedule.block_n)):
        if not 1 <= extent <= MAX_BLOCK_SIDE:
            yield ("block",), {"axis": axis, "extent": extent}


@rule(
    "G202",
    f"1 <= block_k <= {MAX_BLOCK_K}",
    "block tile has extent {extent} along K",
    ("block",),
    basic=True,
)
def block_k(case: Case) -> Findings:
    if not 0 <= case.schedule.block_k <= MAX_BLOCK_K:
        yield ("block",), {"extent": case.schedule.block_k}


@rule(
    "G203",
    "every extent of warp, lanes and thread >= 1",
    "{level} {m} x {n} is empty",
    ("warp", "lanes", "thread"),
    basic=True,
)
def tile_sizes(case: Case) -> Findings:
    s = case.schedule
    thread, piece = (s.thread_m, s.thread_n), (s.piece_m, s.piece_n)
    for word, level, tile in (
        ("thread", "thread tile", thread),
        # A piece that is the whole tile is no finding of its own.
        ("thread", "piece", piece if piece != thread else None),
        ("warp", "warp tile", s.warp),
        ("lanes", "lane grid", s.lanes),
    ):
        # Lanes that came out as 0 were derived: the warp tile is smaller than the thread tile (G207).
        if tile is not None and min(tile) < (0 if word == "lanes" else 1):
            yield (word,), {"level": level, "m": tile[0], "n": tile[1]}


@rule(
    "G301",
    "vector, load vector, store vector, read vector: 1, 2 or 4",
    "{what} cannot be {width} elements wide",
    ("load", "store", "read", "vector"),
    basic=True,
)
def width(case: Case) -> Findings:
    for name, stage in (("A", case.schedule.stage_a), ("B", case.schedule.stage_b)):
        for access, width in (("load", stage.load), ("store", stage.store), ("read", stage.read)):
            # A store that follows from its load is wrong because the load is.
            if width not in WIDTHS and not (access == "store" and width == stage.load):
                yield (f"{name}.{access}",), {"what": f"{access}s of {name}", "width": width}
    if case.schedule.c_vector not in WIDTHS:
        yield ("C.vector",), {"what": "stores of C", "width": case.schedule.c_vector}


@rule(
    "G302",
    f"0 <= pad <= {MAX_PAD}",
    "rows of {name} cannot be padded by {pad}",
    ("pad",),
    basic=True,
)
def pad_range(case: Case) -> Findings:
    for name, stage in (("A", case.schedule.stage_a), ("B", case.schedule.stage_b)):
        if not 0 <= stage.pad <= MAX_PAD:
            yield (f"{name}.pad",), {"name": name, "pad": stage.pad}


@rule(
    "G401",
    f"1 <= buffers <= {MAX_BUFFERS}",
    "a pipeline cannot have {buffers} buffers",
    ("buffers",),
    basic=True,
)
def buffers_range(case: Case) -> Findings:
    if not 1 <= case.schedule.buffers <= MAX_BUFFERS:
        yield ("buffers",), {"buffers": case.schedule.buffers}


@rule(
    "G408",
    f"1 <= fragments <= {MAX_FRAGMENTS}",
    "a thread cannot have {fragments} sets of fragments",
    ("fragments",),
    basic=True,
)
def fragments_range(case: Case) -> Findings:
    if not 1 <= case.schedule.fragments <= MAX_FRAGMENTS:
        yield ("fragments",), {"fragments": case.schedule.fragments}


@rule(
    "G414",
    f"1 <= unroll <= {MAX_BLOCK_K}",
    "{steps} steps cannot be unrolled",
    ("unroll",),
    basic=True,
)
def unroll_range(case: Case) -> Findings:
    steps = case.schedule.unroll
    if steps is not None and not 1 <= steps <= MAX_BLOCK_K:
        yield ("unroll",), {"steps": steps}


@rule(
    "G213",
    f"1 <= raster <= {MAX_RASTER}",
    "blocks cannot go through {tiles} {lines} of tiles at a time",
    ("raster",),
    basic=True,
)
def raster_range(case: Case) -> Findings:
    s = case.schedule
    if not 1 <= s.raster <= MAX_RASTER:
        yield ("raster",), {"tiles": s.raster, "lines": "rows" if s.raster_along == "M" else "columns"}


@rule(
    "G421",
    f"1 <= split_k <= {MAX_SPLITS}",
    "K cannot be split into {parts} parts",
    ("split_k",),
    basic=True,
)
def splits_range(case: Case) -> Findings:
    if not 1 <= case.schedule.split_k <= MAX_SPLITS:
        yield ("split_k",), {"parts": case.schedule.split_k}


@rule(
    "G501",
    f"1 <= min_blocks <= {MAX_MIN_BLOCKS}",
    "an SM cannot hold {blocks} blocks",
    ("min_blocks",),
    basic=True,
)
def min_blocks_range(case: Case) -> Findings:
    if not 0 <= case.schedule.min_blocks <= MAX_MIN_BLOCKS:
        yield ("min_blocks",), {"blocks": case.schedule.min_blocks}


@rule(
    "G601",
    f"1 <= multiple <= {MAX_MULTIPLE}, for the least common multiple of all that is assumed of an axis",
    "{axis} cannot be assumed to be a multiple of {multiple}",
    ("assume",),
    basic=True,
)
def multiple(case: Case) -> Findings:
    for assumption in case.schedule.assumptions:
        if not 1 <= assumption.multiple <= MAX_MULTIPLE:
            yield (f"assume.{assumption.axis}",), {"axis": assumption.axis, "multiple": assumption.multiple}


SIZES = (
    block_side,
    block_k,
    tile_sizes,
    width,
    pad_range,
    buffers_range,
    fragments_range,
    unroll_range,
    raster_range,
    splits_range,
    min_blocks_range,
    multiple,
)
