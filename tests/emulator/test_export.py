"""Kernels in programs of other languages: a shared library, and the stand-alone program, on a CPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import gemmdsl
from gemmdsl.cli import group
from gemmdsl.emulator.builder import export

SGEMM = Path(__file__).parent / "programs" / "sgemm.c"
INCLUDE = Path(gemmdsl.__file__).parent / "emulator" / "include"

PROGRAM = """gemm 1

problem {name} {{
  A: f32[M, K] {a}
  B: f32[K, N] {b}
  C: f32[M, N] {c} = alpha * A @ B + beta * C
}}

schedule s for {name} on sm_80 {{ block 16 x 32 x 8  thread 2 x 2 }}
"""


def written(folder: Path, name: str, a: str = "", b: str = "", c: str = "") -> Path:
    """A file with one schedule, whose launcher is called `<name>_s`; `col` makes an operand column-major."""
    path = folder / f"{name}.gemm"
    path.write_text(PROGRAM.format(name=name, a=a, b=b, c=c))
    return path


def call(*words: object) -> None:
    result = CliRunner().invoke(group, ["compile", *map(str, words)])
    assert result.exit_code == 0, result.output


def test_a_c_program_with_a_blas_interface(tmp_path: Path) -> None:
    col, row = "col", ""
    orders = {"nn": (col, col, col), "nt": (col, row, col), "tn": (row, col, col), "tt": (row, row, col)}
    for name, layouts in orders.items():
        file = written(tmp_path, name, *layouts)
        call(file, "--emit", "so,header", "--device", "cpu", "-o", tmp_path / f"{name}_s.so")
    libraries = [f"./{name}_s.so" for name in orders]
    compiler = shutil.which("cc") or "gcc"
    subprocess.run(
        [compiler, "-std=c99", "-Wall", "-Werror", "-DGEMMDSL_CPU", "-I.", "-o", "program", str(SGEMM),
         *libraries, "-lm"],
        cwd=tmp_path,
        check=True,
    )  # fmt: skip
    done = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("2304 cases are right\n", "", 0)


def test_a_library_needs_nothing_but_libc(tmp_path: Path) -> None:
    if (readelf := shutil.which("readelf")) is None:
        pytest.skip("readelf is not installed")
    kernel = gemmdsl.load(written(tmp_path, "plain")).compile()
    library = tmp_path / "library.so"
    library.write_bytes(export(kernel.cuda))
    told = subprocess.run(
        [readelf, "-d", "-W", "--dyn-syms", str(library)], capture_output=True, text=True, check=True
    ).stdout
    needed = {line.rsplit("[", 1)[1].rstrip("]") for line in told.splitlines() if "(NEEDED)" in line}
    assert all(name.startswith(("libc.", "libm.", "libpthread.", "librt.", "ld-")) for name in needed)
    exported = {line.split()[-1] for line in told.splitlines() if " GLOBAL " in line and " UND " not in line}
    assert exported == {"plain_s", "plain_s_message"}


@pytest.mark.parametrize(("orders", "shape"), [(("", "", ""), "70 33 40"), (("col", "", "col"), "20 48 64")])
def test_the_standalone_program_verifies_and_times(
    tmp_path: Path, orders: tuple[str, str, str], shape: str
) -> None:
    file = written(tmp_path, "alone", *orders)
    call(file, "--emit", "so,header,main", "-o", tmp_path / "alone_s.so")
    subprocess.run(
        ["c++", "-std=c++17", "-O1", "-I", str(INCLUDE), "-o", "program", "-x", "c++", "alone_s_main.cu",
         "-x", "none", "./alone_s.so"],
        cwd=tmp_path,
        check=True,
    )  # fmt: skip
    done = subprocess.run(
        ["./program", *shape.split(), "2"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert f"{shape.replace(' ', 'x')}  error 0\n" in done.stdout
    assert "GFLOP/s" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--emit", "so", "--device", "gpu"], "--emit so is for --device cpu"),
        (["--emit", "cubin", "--device", "cpu"], "--emit cubin is for a GPU"),
    ],
)
def test_kinds_that_are_for_another_device(tmp_path: Path, words: list[str], told: str) -> None:
    file = written(tmp_path, "plain")
    result = CliRunner().invoke(group, ["compile", str(file), *words])
    assert result.exit_code == 2
    assert told in result.output
