"""One run of a kernel: sizes, scalars, leading dimensions, offsets, operands, and how threads are ordered.

A case is plain data: the same case gives the same run, and `gemmdsl run` takes every part of it as an option.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from gemmdsl.cuda_source import LaunchPlan
from gemmdsl.spec import Axis, OperandName, Problem

OperandsKind = Literal["integers", "uniform", "pick-b", "pick-a", "special"]
ThreadOrder = Literal["forward", "reversed", "seeded"]
Landing = Literal["late", "early"]
OPERANDS: tuple[OperandsKind, ...] = get_args(OperandsKind)
ORDERS: tuple[ThreadOrder, ...] = get_args(ThreadOrder)
LANDINGS: tuple[Landing, ...] = get_args(Landing)
NAMES: tuple[OperandName, ...] = get_args(OperandName)


@dataclass(frozen=True, slots=True)
class Case:
    """One run.

    `lda`, `ldb`, `ldc` and offsets are in elements; an offset is the first element's distance from an address
    that is a multiple of 256 bytes.  `operands`: small integers, for exact comparison; numbers in [-1, 1);
    "pick-b" makes each row of A pick one row of B, whose elements tell their place, "pick-a" each column of B
    one column of A; "special" mixes NaN, infinities, zeros and subnormals in.  `entry` forces the path of an
    entry point, "" leaves the choice to the launcher.
    """

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    alpha: float = 1.0
    beta: float = 0.0
    offset_a: int = 0
    offset_b: int = 0
    offset_c: int = 0
    operands: OperandsKind = "integers"
    seed: int = 0
    entry: str = ""
    order: ThreadOrder = "forward"
    landing: Landing = "late"

    @property
    def extents(self) -> dict[Axis, int]:
        return {"M": self.m, "N": self.n, "K": self.k}

    def ld(self, name: OperandName) -> int:
        return {"A": self.lda, "B": self.ldb, "C": self.ldc}[name]

    def offset(self, name: OperandName) -> int:
        return {"A": self.offset_a, "B": self.offset_b, "C": self.offset_c}[name]

    def changed(self, **values: Any) -> Case:
        """The case with other values for some of its parts."""
        return replace(self, **values)

    def allowed(self, plan: LaunchPlan) -> bool:
        """Whether the preconditions of a kernel hold."""
        sizes = self.conditions()
        return all(condition.holds(sizes) for condition in plan.preconditions)

    def conditions(self) -> dict[str, int]:
        """What the conditions of a launch plan are asked about; an address is its offset in bytes."""
        sizes: dict[str, int] = {"M": self.m, "N": self.n, "K": self.k}
        for name in NAMES:
            sizes[name] = 4 * self.offset(name)
            sizes[f"ld{name.lower()}"] = self.ld(name)
        return sizes

    def flags(self, problem: Problem) -> list[str]:
        """The case as options of `gemmdsl run`; what is the default there is left out."""
        words = ["--shape", f"{self.m}x{self.n}x{self.k}"]
        if self.alpha != 1:
            words += ["--alpha", _shown(self.alpha)]
        if self.beta != 0:
            words += ["--beta", _shown(self.beta)]
        for name in NAMES:
            operand = problem.operand(name)
            if self.ld(name) != max(1, self.extents[operand.contiguous]):
                words += [f"--{operand.ld}", str(self.ld(name))]
        if any(self.offset(name) for name in NAMES):
            words += ["--offsets", f"{self.offset_a},{self.offset_b},{self.offset_c}"]
        for flag in ("operands", "seed", "entry", "order", "landing"):
            value = getattr(self, flag)
            if value != _DEFAULTS[flag]:
                words += [f"--{flag}", str(value)]
        return words


def _shown(value: float) -> str:
    """The shortest text that is read back as the same number."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Case)}


def make_case(problem: Problem, m: int, n: int, k: int, **others: Any) -> Case:
    """A case with the least legal leading dimensions where none are given."""
    extents: dict[Axis, int] = {"M": m, "N": n, "K": k}
    for name in NAMES:
        operand = problem.operand(name)
        others.setdefault(operand.ld, max(1, extents[operand.contiguous]))
    return Case(m, n, k, **others)


def command(
    problem: Problem,
    case: Case,
    file: str,
    schedule: str,
    *,
    target: str = "",
    source: str = "",
    sanitize: str = "",
) -> str:
    """The line for a shell that repeats a case of a schedule in a file; what is "" is left out."""
    words = ["gemmdsl", "run", file, "--schedule", schedule]
    for flag, value in (("--target", target), ("--source", source), ("--sanitize", sanitize)):
        words += [flag, value] if value else []
    return shlex.join([*words, *case.flags(problem)])


def to_json(case: Case) -> dict[str, Any]:
    return asdict(case)


def from_json(data: Mapping[str, Any]) -> Case:
    """The case that `to_json` wrote; ValueError when it is not one."""
    try:
        case = Case(**data)
    except TypeError as wrong:
        raise ValueError(f"not a case: {wrong}") from wrong
    for field in fields(Case):
        value, default = getattr(case, field.name), field.default
        kind = (int, float) if isinstance(default, float) else str if isinstance(default, str) else int
        if not isinstance(value, kind):
            raise ValueError(f"{field.name} of a case cannot be {value!r}")
    if case.operands not in OPERANDS or case.order not in ORDERS or case.landing not in LANDINGS:
        raise ValueError("a case with unknown operands, order or landing")
    return case
