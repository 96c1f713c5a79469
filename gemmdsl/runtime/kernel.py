"""A compiled kernel on a GPU: its modules, and launches as the launch plan says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gemmdsl.cubins import cached_cubin
from gemmdsl.cuda_source import CudaSource, EntryPoint, LaunchPlan, Parameter, Status
from gemmdsl.cuda_source import Launch as Started
from gemmdsl.launch_errors import check_range, from_status, meets_output, scalars, unusable
from gemmdsl.occupancy import carveout
from gemmdsl.runtime import errors
from gemmdsl.runtime.device import Gpu, Handle
from gemmdsl.spec import OperandName
from gemmdsl.target import MAX_BLOCKS
from gemmdsl.toolchain.nvcc import Cubin

_MOST_KERNELS = 256
# What the driver packs: C's int, float and pointer.
_FORMATS = {"int": "i", "float": "f"}


def load(gpu: Gpu, source: CudaSource) -> Kernel:
    """The kernel on this GPU, compiled for it or found in the cache; kept loaded for the next call.

    GpuError when the device lacks what the schedule needs or its driver does not take the code, ToolError
    when nvcc is needed and missing, or refuses.
    """
    key = (source.text, repr(source.plan))
    kernel: Kernel | None = gpu.kernels.pop(key, None)
    if kernel is None:
        check_device(gpu, source)
        kernel = Kernel(gpu, source, cached_cubin(source.text, gpu.limits.target))
    # The last one in the order is the one used last.
    gpu.kernels[key] = kernel
    while len(gpu.kernels) > _MOST_KERNELS:
        with gpu.current():
            del gpu.kernels[next(iter(gpu.kernels))]
    return kernel


def check_device(gpu: Gpu, source: CudaSource) -> None:
    """GpuError when the device cannot run what was compiled for the source's target."""
    plan, limits = source.plan, gpu.limits
    if int(source.target.removeprefix("sm_")) > limits.number:
        lacking = f"it is compiled for {source.target}, which is newer than {limits.target}"
        raise errors.unsupported(plan.launcher, str(gpu), lacking)
    shared = plan.static_shared_bytes + plan.dynamic_shared_bytes
    if shared > limits.shared_per_block:
        lacking = f"a block takes {shared} bytes of shared memory, and has {limits.shared_per_block}"
        raise errors.unsupported(plan.launcher, str(gpu), lacking)


def choose(
    source: CudaSource, arguments: Mapping[str, int], alpha: float = 1.0, beta: float = 0.0
) -> EntryPoint | None:
    """The entry point that the C launcher would launch, None when nothing has to be computed.

    `arguments` holds M, N, K, lda, ldb, ldc and the addresses A, B, C.  LaunchError for what the launcher
    refuses, in its order.
    """
    plan = source.plan
    alpha, _ = scalars(source.problem, alpha, beta)
    check_range(source, arguments)
    if (status := _refusal(source, arguments, alpha)) is not Status.SUCCESS:
        raise from_status(status, source, arguments)
    if arguments["M"] == 0 or arguments["N"] == 0:
        return None
    entry = plan.select(arguments)
    if entry is None:
        raise from_status(Status.PRECONDITION, source, arguments)
    if plan.grid(arguments["M"], arguments["N"])[0] > MAX_BLOCKS:
        raise from_status(Status.TOO_LARGE, source, arguments)
    return entry


def _refusal(source: CudaSource, arguments: Mapping[str, int], alpha: float) -> Status:
    """What the launcher says of sizes, leading dimensions and addresses."""
    problem = source.problem
    if min(arguments["M"], arguments["N"], arguments["K"]) < 0:
        return Status.NEGATIVE_SIZE
    for operand in (problem.a, problem.b, problem.c):
        if arguments[operand.ld] < max(1, arguments[operand.contiguous]):
            return Status.LEADING_DIMENSION
    if arguments["M"] == 0 or arguments["N"] == 0:
        return Status.SUCCESS
    reads = arguments["K"] > 0 and alpha != 0
    if not arguments["C"] or (reads and not (arguments["A"] and arguments["B"])):
        return Status.NULL_POINTER
    names: tuple[OperandName, ...] = ("A", "B")
    if reads and any(meets_output(problem, name, arguments) for name in names):
        return Status.OVERLAP
    return Status.SUCCESS


class Kernel:
    """A kernel that is loaded on a GPU."""

    def __init__(self, gpu: Gpu, source: CudaSource, cubin: Cubin) -> None:
        """GpuError when the driver does not take the code."""
        self.gpu, self.source, self.cubin = gpu, source, cubin
        plan = source.plan
        try:
            self._module = gpu.load(cubin.data)
            self._functions = {name: self._function(name, taken) for name, taken in plan.kernels}
            if plan.dynamic_shared_bytes:
                self._allow_shared(plan)
        except gpu.cuda.Error as problem:
            release = gpu.limits.release
            raise errors.too_old_driver(plan.launcher, cubin.compiler, release, str(problem)) from problem

    def launch(
        self,
        arguments: Mapping[str, int],
        alpha: float = 1.0,
        beta: float = 0.0,
        *,
        entry: str | None = None,
        stream: Handle = None,
    ) -> EntryPoint | None:
        """Start the kernel on a pycuda stream (None: the default one) and return what was started.

        `arguments` as those of `choose`; `entry` is the path of the entry point to take in place of the
        launcher's choice.  LaunchError for what does not fit, GpuError when CUDA refuses the launch.
        """
        alpha, beta = scalars(self.source.problem, alpha, beta)
        chosen = choose(self.source, arguments, alpha, beta)
        if chosen is None:
            return None
        if entry is not None:
            chosen = self._forced(entry, arguments)
        self.start(chosen, {**arguments, "alpha": alpha, "beta": beta}, stream)
        return chosen

    def start(self, entry: EntryPoint, values: Mapping[str, float], stream: Handle = None) -> None:
        """Start an entry point, and what a call launches around it, without any check.

        `values` are the launcher's parameters by name.  Memory for partial sums is what the GPU keeps for the
        stream, unless it is among the values.
        """
        plan = self.source.plan
        m, n = int(values["M"]), int(values["N"])
        if plan.workspace is not None and plan.workspace.parameter.name not in values:
            memory = self.gpu.workspace(plan.workspace.size(m, n), stream)
            values = {**values, plan.workspace.parameter.name: int(memory)}
        for launch in plan.launches(entry, m, n):
            self._start(launch, values, stream)

    def reserve(self, m: int, n: int) -> Handle:
        """Memory for the partial sums of an m x n output; None when the kernel needs none.

        A graph that captures a launch needs memory of its own, which lives as long as the graph.
        """
        memory = self.source.plan.workspace
        return self.gpu.allocate(memory.size(m, n), "partial sums") if memory is not None else None

    def _start(self, launch: Started, values: Mapping[str, float], stream: Handle) -> None:
        words = [values[parameter.name] for parameter in launch.parameters]
        with self.gpu.current():
            try:
                self._functions[launch.name].prepared_async_call(
                    launch.grid,
                    (launch.threads, 1, 1),
                    stream,
                    *words,
                    shared_size=launch.dynamic_shared_bytes,
                )
            except self.gpu.cuda.Error as problem:
                said = f"{launch.name} on {self.gpu}: {problem}"
                arguments = {name: int(value) for name, value in values.items()}
                raise from_status(Status.LAUNCH_FAILED, self.source, arguments, said) from problem

    def wait(self, stream: Handle = None) -> None:
        """Wait for the stream; GpuError that names kernel and schedule when a kernel failed on it."""
        launcher = self.source.plan.launcher
        schedule = launcher.removeprefix(f"{self.source.problem.name}_")
        self.gpu.synchronize(stream, launcher, schedule)

    def _function(self, name: str, taken: tuple[Parameter, ...]) -> Any:
        with self.gpu.current():
            function = self._module.get_function(name)
            function.prepare("".join(_FORMATS.get(parameter.ctype, "P") for parameter in taken))
            return function

    def _allow_shared(self, plan: LaunchPlan) -> None:
        """Ask for more shared memory than a kernel has by itself, and for room for all blocks that fit.

        Left to itself, a driver may give an SM the shared memory of one block where two would fit.
        """
        names = self.gpu.cuda.function_attribute
        registers = {used.entry: used.registers for used in self.cubin.usage}
        with self.gpu.current():
            for entry in plan.entries:
                function = self._functions[entry.name]
                function.set_attribute(names.MAX_DYNAMIC_SHARED_SIZE_BYTES, plan.dynamic_shared_bytes)
                if entry.name in registers:
                    shared = plan.static_shared_bytes + plan.dynamic_shared_bytes
                    share = carveout(self.gpu.limits.row, plan.threads, registers[entry.name], shared)
                    function.set_attribute(names.PREFERRED_SHARED_MEMORY_CARVEOUT, share)

    def _forced(self, path: str, arguments: Mapping[str, int]) -> EntryPoint:
        for entry in self.source.plan.entries:
            if path in (entry.path, entry.name):
                for condition in entry.requires:
                    if not condition.holds(arguments):
                        raise unusable("entry", f"entry point {entry.name} needs {condition}")
                return entry
        known = ", ".join(entry.path for entry in self.source.plan.entries)
        raise unusable("entry", f"{self.source.plan.launcher} has no entry point {path}; it has {known}")
