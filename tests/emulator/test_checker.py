"""The checker sees each kind of mistake, says where it is, and keeps silent about kernels that make none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gemmdsl.cuda_source import CudaSource
from gemmdsl.diagnostics import Diagnostic
from gemmdsl.emulator.checker import SANITIZERS, Sanitizer
from gemmdsl.emulator.library import Landing, RunOptions, ThreadOrder
from gemmdsl.emulator.run import arguments_of, launch, run, store
from gemmdsl.launch_errors import LaunchError
from gemmdsl.testing.outcome import kind_of
from tests.emulator.samples import NAIVE, PINGPONG, PIPELINE, SHARED_TILE, one_block

KERNELS = [NAIVE, SHARED_TILE, PINGPONG, PIPELINE]
ORDERS: list[ThreadOrder] = ["forward", "reversed", "seeded"]


def finding(
    source: CudaSource,
    order: ThreadOrder = "forward",
    *,
    shape: tuple[int, int, int] = (1, 64, 64),
    alpha: float = 1.0,
    beta: float = 0.0,
    landing: Landing = "late",
) -> Diagnostic:
    """What the checker says about a launch in which it has to say something."""
    m, n, k = shape
    ld = {name: 4 * (-(-size // 4)) + 4 for name, size in (("lda", k), ("ldb", n), ("ldc", n))}
    stored = store(source, m, n, k, **ld)
    stored["A"].fill(np.ones((m, k)))
    stored["B"].fill(np.ones((k, n)))
    stored["C"].fill(np.ones((m, n)))
    with pytest.raises(LaunchError) as caught:
        launch(
            source,
            arguments_of(stored, m, n, k),
            alpha,
            beta,
            options=RunOptions(order, 1, landing),
            checked=True,
        )
    return caught.value.diagnostics[0]


def edited(source: CudaSource, old: str, new: str) -> CudaSource:
    assert source.text.count(old) >= 1
    return replace(source, text=source.text.replace(old, new, 1))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("source", KERNELS, ids=lambda source: source.plan.launcher)
def test_right_kernels_are_passed_over_in_silence(source: CudaSource, order: ThreadOrder) -> None:
    shapes = [(64, 32, 8), (64, 64, 40)] if source is PINGPONG else [(1, 4, 8), (33, 68, 16), (32, 64, 200)]
    for m, n, k in shapes:
        a, b, c = np.ones((m, k)), np.full((k, n), 2.0), np.ones((m, n))
        scalars = (2.0, 1.0) if source.problem.beta else (1.0, 0.0)
        for landing in ("late", "early"):
            got = run(source, a, b, c, *scalars, order=order, async_landing=landing, checked=True)
            assert (got == scalars[0] * 2 * k + scalars[1]).all()


RACE = """    __shared__ float words[64];
    words[t] = 1.0f;
    {first}
    C[t] = words[(t + 1) % 64];
    {second}
    words[t] = 2.0f;"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("first", "second"), [("", "__syncthreads();"), ("__syncthreads();", "")])
def test_a_missing_barrier_is_a_race_or_a_read_of_nothing(
    order: ThreadOrder, first: str, second: str
) -> None:
    found = finding(one_block(RACE.format(first=first, second=second)), order)
    reads, writes = "on line 10", f"on line {8 if first == '' else 12}"
    if found.message.startswith("probe: read of word"):
        assert first == ""
        assert f"of words {reads}, which no thread has written" in found.message
    else:
        assert "race on word" in found.message
        assert reads in found.message
        assert writes in found.message
        assert "with no barrier between" in found.message
        assert [note.label for note in found.notes] == ["at", "at"]
        assert "line 10 in probe_general" in {note.text for note in found.notes}


# One mistake of each kind, in this order: init, align, memory, race.
FOUR = """    __shared__ float words[64];
    __shared__ float others[66];
    float seen = words[t];
    float2 two = *reinterpret_cast<const float2*>(A + 1);
    seen += two.x + two.y;
    seen += A[64 + t % 2];
    others[t] = seen;
    seen += others[(t + 1) % 64];
    C[t] = seen;"""


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (("race", "memory", "init", "align"), "which no thread has written"),
        (("race", "memory", "align"), "misaligned read of 8 bytes"),
        (("race", "memory"), "read of padding"),
        (("race",), "race on word"),
        (("init",), "which no thread has written"),
        (("align",), "misaligned read of 8 bytes"),
        (("memory",), "read of padding"),
    ],
)
def test_findings_that_nobody_asked_for_are_passed_over(wanted: tuple[Sanitizer, ...], message: str) -> None:
    source = one_block(FOUR)
    stored = store(source, 2, 64, 64, lda=68)
    options = RunOptions(wanted=wanted)
    with pytest.raises(LaunchError, match=message):
        launch(source, arguments_of(stored, 2, 64, 64), 1.0, 1.0, options=options, checked=True)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("C[0] = 1.0f; C[t] = 1.0f;", "memory"),
        ("if (t > 0) C[t] = 1.0f;", "memory"),
        ("C[t] = C[t] + A[t];", "init"),
        ("C[t] = 1.0f; const_cast<float*>(A)[t] = 2.0f;", "memory"),
        ("C[t] = t < 64 ? 1.0f : 0.0f; C[64] = 2.0f;", "memory"),
    ],
)
def test_a_launch_with_findings_that_nobody_asked_for_comes_to_its_end(body: str, kind: Sanitizer) -> None:
    source = one_block(f"    {body}")
    stored = store(source, 1, 64, 64)
    arguments = arguments_of(stored, 1, 64, 64)
    with pytest.raises(LaunchError) as caught:
        launch(source, arguments, checked=True)
    assert kind_of(caught.value.diagnostics[0].message) == kind
    others = tuple(other for other in SANITIZERS if other != kind)
    launch(source, arguments, options=RunOptions(wanted=others), checked=True)


def test_both_barriers_make_it_right() -> None:
    source = one_block(RACE.format(first="__syncthreads();", second="__syncthreads();"))
    stored = store(source, 1, 64, 64)
    launch(source, arguments_of(stored, 1, 64, 64), checked=True)
    assert (stored["C"].matrix == 1).all()


WARP = """
    __shared__ float words[64];
    words[t] = 1.0f;
    __syncwarp({mask});
    C[t] = words[{neighbour}];"""


def test_a_warp_that_meets_orders_its_own_lanes_only() -> None:
    own, other = "t / 32 * 32 + (t + 1) % 32", "(t + 32) % 64"
    launched = one_block(WARP.format(mask="", neighbour=own))
    stored = store(launched, 1, 64, 64)
    for order in ORDERS:
        launch(launched, arguments_of(stored, 1, 64, 64), options=RunOptions(order), checked=True)
    found = finding(one_block(WARP.format(mask="", neighbour=other)))
    assert "race on word" in found.message or "which no thread has written" in found.message
    half = "t % 32 < 16 ? 0xffffu : 0xffff0000u"
    found = finding(one_block(WARP.format(mask=half, neighbour="t / 32 * 32 + (t + 16) % 32")), "reversed")
    assert "race on word" in found.message or "which no thread has written" in found.message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("__shared__ float words[64]; C[t] = words[t];", "read of word 0 of words on line 7, which no"),
        ("__shared__ float words[64]; words[t + 1] = 1.0f;", "outside words on line 7: byte 256 of 256"),
        ("__shared__ float words[64]; words[t - 1] = 1.0f;", "write outside"),
        (
            "extern __shared__ float some[]; some[t + 63] = 1.0f; C[t] = 1.0f;",
            "write outside dynamic shared memory on line 7: byte 256 of 256",
        ),
        ("C[t] = A[64 + t];", "read outside A on line 7, 0 bytes behind its last element"),
        ("C[t] = B[64 + t];", "read of padding on line 7: element 0 behind row 0 of B"),
        ("C[t] = A[t - 1];", "read outside A on line 7, 4 bytes before its first element"),
        ("C[t + 1] = 1.0f;", "write outside C on line 7, 0 bytes behind its last element"),
        ("const_cast<float*>(A)[t] = 1.0f;", "write to A on line 7"),
        ("C[t] = C[t] + 1.0f;", "read of C[0, 0] on line 7, though its factor is 0"),
        ("C[t] = 1.0f; C[t] = A[t];", "C[0, 0] is written a second time on line 7"),
        ("C[t] = 1.0f; __syncthreads(); C[t] = 2.0f;", "C[0, 0] is written a second time on line 7"),
        ("C[t / 2] = 1.0f;", "C[0, 0] is written a second time on line 7"),
        ("if (t != 9) C[t] = 1.0f;", "C[0, 9] was not written"),
        (
            "*reinterpret_cast<float4*>(C + 1 + t % 2 * 4) = make_float4(1, 2, 3, 4);",
            "misaligned write of 16 bytes on line 7, at an address that is 4 more than a multiple",
        ),
        (
            "__shared__ float4 words[64]; float* row = reinterpret_cast<float*>(words) + 2;"
            " *reinterpret_cast<float4*>(row) = make_float4(1, 2, 3, 4);",
            "misaligned write of 16 bytes on line 7, at an address that is 8 more than a multiple",
        ),
        (
            "volatile float* far = reinterpret_cast<float*>(4096 + t * 4); C[t] = *far;",
            "read outside every array on line 7, at address 0x1000",
        ),
    ],
)
def test_single_mistakes_are_found_and_located(body: str, words: str) -> None:
    source = one_block(f"    {body}", dynamic=256 if "extern" in body else 0)
    assert words in finding(source).message


COPY = """    __shared__ float words[64];
    words[t] = 0.0f;
    __syncthreads();
    __pipeline_memcpy_async(&words[t], A + {first} + t, 4{fill});
    __pipeline_commit();
    {wait}
    C[t] = words[{place}];"""
WAIT = "__pipeline_wait_prior(0);"


def copy(wait: str = WAIT, place: str = "t", first: str = "0", fill: str = "") -> CudaSource:
    """Each thread copies a word of A from `first` on and hands it to C; `fill` bytes of it are zero."""
    return one_block(COPY.format(wait=wait, place=place, first=first, fill=fill and f", {fill}"))


@pytest.mark.parametrize("landing", ["late", "early"])
@pytest.mark.parametrize("fill", ["", "4"])
def test_an_asynchronous_copy_is_not_touched_before_the_wait(landing: Landing, fill: str) -> None:
    """Nor are the zeros that it fills up with."""
    found = finding(copy(wait="", fill=fill), landing=landing)
    assert "word 0 of words on line 13, which an asynchronous copy issued on line 10 may" in found.message
    right = copy(fill=fill)
    stored = store(right, 1, 64, 64)
    launch(right, arguments_of(stored, 1, 64, 64), options=RunOptions(landing=landing), checked=True)


@pytest.mark.parametrize("order", ORDERS)
def test_a_wait_is_no_barrier(order: ThreadOrder) -> None:
    found = finding(copy(place="t ^ 1"), order)
    assert "race on word" in found.message


def test_an_asynchronous_copy_reads_nothing_of_what_it_fills() -> None:
    assert "read outside" in finding(copy(first="100000")).message
    beyond = copy(first="100000", fill="4")
    stored = store(beyond, 1, 64, 64)
    launch(beyond, arguments_of(stored, 1, 64, 64), checked=True)
    assert (stored["C"].matrix[:, :64] == 0).all()


@pytest.mark.parametrize(
    ("source", "old", "new", "words"),
    [
        (SHARED_TILE, "__syncthreads();  // the tiles", "// ", "which no thread has written"),
        (SHARED_TILE, "__syncthreads();  // nobody", "// ", "race on word"),
        (PINGPONG, "__syncthreads();  // the first", "// ", "which no thread has written"),
        (PINGPONG, "__syncthreads();  // the next", "// ", "which no thread has written"),
        (PINGPONG, "store(tiles, buffer ^ 1, a, b)", "store(tiles, buffer, a, b)", "race on word"),
        (PINGPONG, "constexpr int PAD = 4", "constexpr int PAD = 3", "misaligned read of 16 bytes"),
        (PIPELINE, "__pipeline_wait_prior(STAGES - 2);", "", "which an asynchronous copy issued on line"),
        (
            PIPELINE,
            "__pipeline_wait_prior(STAGES - 2)",
            "__pipeline_wait_prior(STAGES - 1)",
            "which an asynchronous copy issued on line",
        ),
        (PIPELINE, "__syncthreads();  // this", "// ", "word"),
        (PIPELINE, "stages[(tile + STAGES - 1) % STAGES]", "stages[tile % STAGES]", "word"),
        (PIPELINE, "inside ? K - kk : 0", "4", "of padding on line"),
        (NAIVE, "row >= M || col >= N", "row >= M || col > N", "of padding on line"),
        (NAIVE, "row >= M || col >= N", "row > M || col >= N", "outside"),
        (NAIVE, "(row) * lda", "(row) * ldb", "A"),
        (NAIVE, "beta == 0.0f ? alpha * sum", "beta == 1.0f ? alpha * sum", "though its factor is 0"),
        (NAIVE, "if (alpha != 0.0f) {", "{", "[0, 0] on line 17, though its factor is 0"),
    ],
)
def test_planted_faults_are_found(source: CudaSource, old: str, new: str, words: str) -> None:
    shape = (64, 32, 40) if source is PINGPONG else (33, 65, 197)
    alpha = 0.0 if "alpha !=" in old else 1.0
    broken = edited(source, old, new)
    assert words in finding(broken, shape=shape, alpha=alpha).message
