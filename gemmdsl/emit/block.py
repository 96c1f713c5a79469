"""The functions that a block goes through: which it calls, and what each of them needs to know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from gemmdsl.cuda_source import LaunchPlan
from gemmdsl.emit.functions import Function, Parameter, function, names_in
from gemmdsl.emit.operands import DirectView, OutputView, StageView, flags
from gemmdsl.emit.statements import StatementView
from gemmdsl.emit.sweeps import restricted
from gemmdsl.emit.workspace import WorkspaceView
from gemmdsl.ir import AddOutput, Kernel, StoreOutput, StorePart, walk

_THREAD = (Parameter("int thread_row"), Parameter("int thread_col"))
_LEFT = (Parameter("int m_left"), Parameter("int n_left"))
_ACC = "float (&acc)[THREAD_M][THREAD_N]"


def end_of(kernel: Kernel) -> StoreOutput | AddOutput | StorePart:
    """The statement by which a block hands on its products."""
    return next(s for s in walk(kernel.body) if isinstance(s, StoreOutput | AddOutput | StorePart))


def end_function(kernel: Kernel, output: OutputView, workspace: WorkspaceView | None) -> Function:
    """The function that stores a thread's products, or adds them to C."""
    problem, end = kernel.spec.problem, end_of(kernel)
    listed = [Parameter("float* C"), Parameter("int ldc"), *_LEFT]
    used = names_in(output.m_index, output.n_index, output.valid) | {"acc"}
    match end:
        case StoreOutput():
            name = "store_c"
            used |= names_in(output.address, output.aligned, output.without_beta) | {"C", "beta"}
            if problem.alpha:
                listed.append(Parameter("float scale", "depth > 0 ? alpha : 0.0f"))
            if problem.beta:
                listed.append(Parameter("float beta"))
        case AddOutput():
            name = "add_c"
            used |= names_in(output.address, output.aligned, output.without_beta) | {"C"}
            if problem.alpha:
                listed.append(Parameter("float scale", "alpha"))
        case StorePart():
            assert workspace is not None
            name = "store_part"
            used |= names_in(workspace.element) | {"part"}
            listed = [Parameter("float* part", "parts"), Parameter(f"int64_t {workspace.ld}"), *_LEFT]
        case _:
            assert_never(end)
    return function(name, flags(kernel), [*listed, Parameter(f"const {_ACC}"), *_THREAD], used)


def multiply_tile_function(stages: tuple[StageView, ...]) -> Function:
    """All steps of a staged tile."""
    used = frozenset({"acc", "stage"}).union(*(stage.read_fragment.used for stage in stages))
    return function("multiply_tile", (), [Parameter(_ACC), Parameter("const Stage& stage"), *_THREAD], used)


def multiply_global_function(kernel: Kernel, direct: tuple[DirectView, ...]) -> Function:
    """All of K, straight from global memory."""
    parts = (part for d in direct for part in (d.fragment_index, d.guarded, d.address))
    used = names_in(*parts) | {"acc", "A", "B", "depth"}
    inputs = ("const float* A", "int lda", "const float* B", "int ldb")
    listed = [Parameter(_ACC), *map(Parameter, inputs), *_LEFT, Parameter("int depth"), *_THREAD]
    return function("multiply_global", flags(kernel), listed, used)


def block_function(kernel: Kernel, plan: LaunchPlan, used: frozenset[str]) -> Function:
    """What the block does, of which the names `used` come from outside or from its first lines."""
    found = [Parameter(restricted((parameter,))) for parameter in plan.entry_parameters]
    listed = [parameter for parameter in found if parameter.name in used]
    if kernel.staging is not None:
        listed = [Parameter("Stage* stages" if kernel.buffers else "Stage& stage"), *listed]
    # Each entry says what it knows, whether all of it matters or not.
    return Function("compute_block", flags(kernel), tuple(listed))


def names_of(body: tuple[StatementView, ...], functions: Mapping[str, Function]) -> frozenset[str]:
    """The names that a program mentions: in its expressions, and in what its functions are given."""
    return frozenset[str]().union(*_names_of(body, functions))


def _names_of(body: tuple[StatementView, ...], functions: Mapping[str, Function]) -> Iterator[frozenset[str]]:
    for s in body:
        yield names_in(s.k_left, s.slot, s.k, s.registers, s.pending, s.start, s.stop, s.condition)
        yield names_in(*(text for counter in s.counters for text in (counter.start, counter.following)))
        if s.function:
            yield functions[s.function].used
        if s.lands:
            yield frozenset((f"{s.lower}_to",))
        yield from _names_of(s.body, functions)
