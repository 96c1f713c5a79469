"""`gemmdsl compile`: schedules to CUDA text, headers, programs, PTX and cubins."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import click

from gemmdsl.cli.options import FileName, is_terminal, keep_inputs, shortened
from gemmdsl.diagnostics import Diagnostic, GemmError, Severity, error, render
from gemmdsl.files import write_bytes, write_tree

if TYPE_CHECKING:
    from gemmdsl.checker import Program
    from gemmdsl.cuda_source import CudaSource
    from gemmdsl.source import Span
    from gemmdsl.spec import Spec

_ALL = "all"
_STDOUT = "-"


class Kind(Enum):
    """What can be made of a schedule."""

    CU = "cu"
    HEADER = "header"
    MAIN = "main"
    PTX = "ptx"
    CUBIN = "cubin"
    SO = "so"

    @property
    def ending(self) -> str:
        """What a file of this kind has after the schedule's name."""
        return {"header": ".h", "main": "_main.cu"}.get(self.value, f".{self.value}")

    @property
    def is_binary(self) -> bool:
        return self in (Kind.CUBIN, Kind.SO)


def _kinds(ctx: click.Context, param: click.Parameter, value: str) -> tuple[Kind, ...]:
    """The kinds named in `value`, separated by commas; BadParameter for an unknown or repeated one."""
    known = {kind.value: kind for kind in Kind}
    words = value.split(",")
    for word in words:
        if word not in known:
            raise click.BadParameter(f"{shortened(word)} is none of {', '.join(known)}")
        if words.count(word) > 1:
            raise click.BadParameter(f"{word!r} is given twice")
    return tuple(known[word] for word in words)


@click.command()
@click.argument("file")
@click.option("--schedule", "-s", metavar="NAME", help="The schedule to compile, or 'all'.")
@click.option("--target", "-t", metavar="SM", help="Compile for this target instead, such as sm_90.")
@click.option(
    "--output",
    "-o",
    type=FileName(),
    metavar="FILE",
    help="Write one schedule there; '-' is stdout, the default.",
)
@click.option(
    "--folder",
    "-d",
    type=FileName(),
    metavar="FOLDER",
    help="Write files named after the schedules into FOLDER.",
)
@click.option(
    "--emit",
    metavar="KIND,...",
    default="cu",
    callback=_kinds,
    show_default=True,
    help="What to make: cu, header, main, ptx, cubin; so is a shared library for the CPU.",
)
@click.option(
    "--device", type=click.Choice(["cpu", "gpu"]), help="What it is for: so for cpu, ptx and cubin for gpu."
)
def command(
    file: str,
    schedule: str | None,
    target: str | None,
    output: str | None,
    folder: str | None,
    emit: tuple[Kind, ...],
    device: str | None,
) -> None:
    """Turn schedules into CUDA.

    Without --schedule, a file's only schedule is compiled, and with --folder all of them.  Several kinds go
    to a folder, or beside FILE under its name and their own endings.  Files appear once everything has
    compiled; if anything fails, none does.

    With --emit so, the launcher is for programs without a GPU: the emulator runs the kernel on
    matrices in the host's memory.
    """
    _refuse_device(device, emit)
    _refuse_misuse(schedule, output, folder, emit)
    from gemmdsl.checker import load

    program = load(file)
    if schedule is None and folder is not None:
        schedule = _ALL
    specs = _specs(program, schedule, target)
    for spec in specs:
        for sentence in spec.fallbacks:
            click.echo(f"note: {spec.schedule.name}: {sentence}", err=True)
    places = _places(specs, emit, output, folder)
    keep_inputs(places, [file])
    made = _compiled(specs, emit)
    if not places:
        (data,) = made
        click.echo(data, nl=False)
    elif folder is None and len(emit) == 1:
        (data,) = made
        write_bytes(places[0], data)
    else:
        files = {path.name: data for path, data in zip(places, made, strict=True)}
        write_tree(places[0].parent, files)


def _places(
    specs: tuple[Spec, ...], emit: tuple[Kind, ...], output: str | None, folder: str | None
) -> tuple[Path, ...]:
    """Where each kind of each schedule goes, in this order; none for standard output.

    UsageError when they cannot lie beside each other, GemmError when two would have the same file.
    """
    if folder is not None:
        names = [f"{spec.symbol}{kind.ending}" for spec in specs for kind in emit]
        for name in names:
            if names.count(name) > 1:
                message = f"two schedules would be written to {name}"
                raise GemmError([error("G711", message, help="rename one of them")])
        return tuple(Path(folder) / name for name in names)
    if output is None or output == _STDOUT:
        return ()
    path = Path(output)
    if len(emit) == 1:
        return (path,)
    ending = _ending_of(path, emit)
    stem = path.name.removesuffix(ending)
    (spec,) = specs
    if Kind.MAIN in emit and stem != spec.symbol:
        name = f"{spec.symbol}{ending}"
        raise click.UsageError(f"the program includes {spec.symbol}.h: use --folder, or --output {name}")
    return tuple(path.parent / f"{stem}{kind.ending}" for kind in emit)


def _refuse_device(device: str | None, emit: tuple[Kind, ...]) -> None:
    """UsageError for a kind that is for another device than the one named."""
    if Kind.SO in emit and device == "gpu":
        raise click.UsageError("--emit so is for --device cpu")
    for kind in (Kind.PTX, Kind.CUBIN):
        if kind in emit and device == "cpu":
            raise click.UsageError(f"--emit {kind.value} is for a GPU")


def _refuse_misuse(
    schedule: str | None, output: str | None, folder: str | None, emit: tuple[Kind, ...]
) -> None:
    """UsageError for options that do not go together."""
    if output is not None and folder is not None:
        raise click.UsageError("--output and --folder exclude each other")
    if schedule == _ALL and folder is None:
        raise click.UsageError("several schedules need --folder")
    if folder is not None:
        return
    if output is None or output == _STDOUT:
        if len(emit) > 1:
            raise click.UsageError("several kinds need --folder or --output FILE")
        if emit[0].is_binary and is_terminal(sys.stdout):
            raise click.UsageError(f"a {emit[0].value} is not for a terminal: give --output or --folder")
        return
    if len(emit) > 1:
        _ending_of(Path(output), emit)


def _ending_of(path: Path, emit: tuple[Kind, ...]) -> str:
    """The ending by which `path` names one of the kinds; UsageError if it names none."""
    # The longest first: `_main.cu` ends in `.cu` too.
    for ending in sorted((kind.ending for kind in emit), key=len, reverse=True):
        if path.name.endswith(ending) and path.name != ending:
            return ending
    endings = ", ".join(kind.ending for kind in emit)
    raise click.UsageError(f"with several kinds, --output must end in one of {endings}")


def _specs(program: Program, schedule: str | None, target: str | None) -> tuple[Spec, ...]:
    """The checked schedules; GemmError with the findings of all that cannot be compiled."""
    names: tuple[str | None, ...] = program.schedules if schedule == _ALL else (schedule,)
    specs: list[Spec] = []
    findings: dict[tuple[str, Span | None, str], Diagnostic] = {}
    # A file without a schedule is told so by the program itself.
    for name in names or (None,):
        try:
            specs.append(program.spec(name, target))
        except GemmError as problem:
            # What several schedules inherit is said once.
            for finding in problem.diagnostics:
                findings.setdefault((finding.code, finding.span, finding.message), finding)
    if findings:
        raise GemmError(findings.values())
    return tuple(specs)


def _compiled(specs: Iterable[Spec], emit: tuple[Kind, ...]) -> list[bytes]:
    """Each kind of each schedule, in this order."""
    from gemmdsl.api import compile_spec

    return [data for spec in specs for data in _made_of(compile_spec(spec), emit)]


def _made_of(source: CudaSource, emit: tuple[Kind, ...]) -> Iterator[bytes]:
    for kind in emit:
        match kind:
            case Kind.CU:
                yield source.text.encode()
            case Kind.HEADER:
                yield source.header.encode()
            case Kind.MAIN:
                yield source.main.encode()
            case Kind.PTX:
                from gemmdsl.toolchain import compile_ptx

                yield compile_ptx(source.text, source.target).encode()
            case Kind.CUBIN:
                yield _cubin(source)
            case Kind.SO:
                from gemmdsl.emulator.builder import export

                yield export(source)
            case _:
                assert_never(kind)


def _cubin(source: CudaSource) -> bytes:
    """Machine code; registers that do not fit are warned of on stderr."""
    from gemmdsl.toolchain import compile_cubin

    cubin = compile_cubin(source.text, source.target)
    for usage in cubin.usage:
        if usage.spills:
            stores, loads = usage.spill_stores, usage.spill_loads
            message = (
                f"{usage.entry} spills registers on {usage.target}: {stores} bytes stored, {loads} loaded"
            )
            click.echo(render(Diagnostic("G910", message, severity=Severity.WARNING)), err=True)
    return cubin.data
