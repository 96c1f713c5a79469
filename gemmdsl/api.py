"""The Python interface: load a `.gemm` file, compile its schedules, run the kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from gemmdsl import checker
from gemmdsl.cuda_source import CudaSource, LaunchPlan, ScheduleText
from gemmdsl.diagnostics import Diagnostic
from gemmdsl.emit import emit
from gemmdsl.passes import steps
from gemmdsl.spec import Spec

if TYPE_CHECKING:
    from gemmdsl.emulator.library import ThreadOrder

_DEVICE = re.compile(r"cpu|gpu(:(?P<index>[0-9]{1,6}))?")


def compile_spec(spec: Spec) -> CudaSource:
    """The whole way from a checked Spec to CUDA text: lowering, passes with proofs, emission.

    Raises ProofError when a proof fails, which is a bug of this compiler.
    """
    last = steps(spec)[-1]
    return emit(last.kernel, last.proofs)


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One schedule, compiled: its CUDA text and how to run it."""

    spec: Spec
    cuda: CudaSource

    def __repr__(self) -> str:
        return f"<CompiledKernel {self.spec.symbol} for {self.spec.target.name}>"

    @property
    def source(self) -> str:
        """The `.cu` text: constants, device functions, entry points and the C launcher."""
        return self.cuda.text

    @property
    def header(self) -> str:
        """A C header that declares the launcher."""
        return self.cuda.header

    @property
    def main(self) -> str:
        """A stand-alone program that verifies the kernel on a GPU, then times it."""
        return self.cuda.main

    @property
    def launch_plan(self) -> LaunchPlan:
        """How to launch the kernel without the C launcher."""
        return self.cuda.plan

    def with_source(self, text: str) -> CompiledKernel:
        """The kernel with a `.cu` text that was edited by hand: same problem, launch plan and tests.

        The text has to keep the names and parameters of the entry points and of the launcher.
        """
        return replace(self, cuda=replace(self.cuda, text=text))

    @property
    def is_edited(self) -> bool:
        """Whether the text is another one than the compiler emits."""
        return self.cuda.text != compile_spec(self.spec).text

    def run(
        self,
        a: Any,
        b: Any,
        c: Any = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        *,
        device: str = "cpu",
        lda: int | None = None,
        ldb: int | None = None,
        ldc: int | None = None,
        entry: str | None = None,
        order: ThreadOrder = "forward",
        checked: bool = False,
        out: Any = None,
        stream: object = None,
    ) -> Any:
        """alpha * a @ b + beta * c for matrices of shape (M, K), (K, N) and (M, N).

        `device="cpu"` runs the emitted text on the emulator, which needs a C++ compiler; it takes what numpy
        makes an array of, and returns a new float32 array.  `device="gpu"`, or `"gpu:1"` for another than the
        first, runs it through pycuda, and also takes and returns arrays that are on the GPU: see
        `gemmdsl.runtime.run` for them, `out` and `stream`.  On the host, float64 and integers are narrowed to
        float32 without a warning.

        For the CPU: `lda`, `ldb` and `ldc` are the leading dimensions in memory, by default the least legal
        ones; `entry` is the path (`fast`, `edge`, `general`) to run in place of the launcher's choice;
        `order` is that of the threads between two barriers (`forward`, `reversed`, `seeded`); and with
        `checked`, the first race, access outside of an array, misaligned vector or read of what nobody wrote
        ends the run.

        Raises LaunchError when the arguments do not fit, the device included, or the run is ended, and
        GpuError and ToolError for what is missing.
        """
        from gemmdsl.launch_errors import shortened, unusable

        match = _DEVICE.fullmatch(device)
        if match is None:
            raise unusable("device", f'device is {shortened(device)}, and has to be "cpu", "gpu" or "gpu:N"')
        if device == "cpu":
            for name, given in (("out", out), ("stream", stream)):
                if given is not None:
                    raise unusable(name, f'{name} is for a GPU: device="gpu", and not "cpu"')
            from gemmdsl.emulator.run import run

            return run(
                self.cuda,
                a,
                b,
                c,
                alpha,
                beta,
                lda=lda,
                ldb=ldb,
                ldc=ldc,
                entry=entry,
                order=order,
                checked=checked,
            )
        for name, changed in (
            *(("lda", lda is not None), ("ldb", ldb is not None), ("ldc", ldc is not None)),
            *(("entry", entry is not None), ("order", order != "forward"), ("checked", checked)),
        ):
            if changed:
                raise unusable(name, f'{name} is for the CPU: device="cpu", and not "{device}"')
        from gemmdsl import runtime

        gpu = runtime.gpu(int(match["index"] or 0))
        return runtime.run(gpu, self.cuda, a, b, c, alpha, beta, out=out, stream=stream)


@dataclass(frozen=True, slots=True)
class Program:
    """A loaded file: its schedules, ready to compile."""

    checked: checker.Program

    def __repr__(self) -> str:
        return f"<Program {self.checked.source.file}: {', '.join(self.schedules) or 'no schedules'}>"

    @property
    def schedules(self) -> tuple[str, ...]:
        """Names of the schedules in the order of the file."""
        return self.checked.schedules

    def spec(self, schedule: str | None = None, target: str | None = None) -> Spec:
        """The checked Spec of a schedule (optional when there is one), for its own or another target."""
        return self.checked.spec(schedule, target)

    def check(self) -> tuple[Diagnostic, ...]:
        """Findings about every schedule."""
        return self.checked.check()

    def compile(self, schedule: str | None = None, target: str | None = None) -> CompiledKernel:
        """Compiles one schedule; raises GemmError with every rule that it breaks."""
        spec = self.spec(schedule, target)
        declared = self.checked.declared[spec.schedule.name]
        words = tuple((word, entry.span) for word, entry in declared.entries.items())
        text = ScheduleText(self.checked.source, declared.decl.name.span, words)
        return CompiledKernel(spec, replace(compile_spec(spec), schedule=text))


def load(path: str | PathLike[str]) -> Program:
    """Reads a `.gemm` file; raises GemmError with everything that is wrong with it as a whole."""
    return Program(checker.load(path))


def loads(text: str, name: str = "<string>") -> Program:
    """The same for text that is at hand; `name` is shown in diagnostics."""
    return Program(checker.loads(text, name))
