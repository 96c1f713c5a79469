"""The index algebra: small integer expressions that are printed as C, enumerated and bounded.

One expression serves three readers: the emitter prints it (`gemmdsl.index_text`), the verifier and the models
evaluate it over arrays of threads and loop counters (`evaluate`), and the constructors simplify it with its
range (`lo`, `hi`).  `/`, `%` and `^` take values that cannot be negative, so that C's truncating division and
numpy's flooring division agree; others are refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, assert_never

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.int64]

OpKind = Literal["+", "-", "*", "/", "%", "^", "<", "==", "!=", "&&", "||", "min", "wrap"]


@dataclass(frozen=True, slots=True)
class Operator:
    """What an operator computes, of integers and of arrays alike, and how tightly it binds in text.

    Rank 0 is for an operator that C spells as a function of the operator's name.
    """

    apply: Callable[[Any, Any], Any]
    rank: int


# Comparisons give 0 or 1.
OPERATORS: dict[OpKind, Operator] = {
    "*": Operator(operator.mul, 8),
    "/": Operator(operator.floordiv, 8),
    "%": Operator(operator.mod, 8),
    "+": Operator(operator.add, 7),
    "-": Operator(operator.sub, 7),
    "<": Operator(lambda left, right: (left < right) * 1, 6),
    "==": Operator(lambda left, right: (left == right) * 1, 6),
    "!=": Operator(lambda left, right: (left != right) * 1, 6),
    "^": Operator(operator.xor, 4),
    "&&": Operator(lambda left, right: ((left != 0) & (right != 0)) * 1, 3),
    "||": Operator(lambda left, right: ((left != 0) | (right != 0)) * 1, 2),
    "min": Operator(lambda left, right: left + (right - left) * (right < left), 0),
    "wrap": Operator(operator.mod, 0),
}
# Stands for "no bound known": sizes and leading dimensions are run-time values.
UNBOUNDED = 1 << 62


class _Arithmetic:
    """Operators shared by all nodes; the results are simplified."""

    __slots__ = ()

    def __add__(self, other: ExprLike) -> Expr:
        return add(as_expr(self), as_expr(other))

    def __radd__(self, other: int) -> Expr:
        return add(as_expr(other), as_expr(self))

    def __sub__(self, other: ExprLike) -> Expr:
        return sub(as_expr(self), as_expr(other))

    def __mul__(self, other: ExprLike) -> Expr:
        return mul(as_expr(self), as_expr(other))

    def __rmul__(self, other: int) -> Expr:
        return mul(as_expr(other), as_expr(self))

    def __floordiv__(self, other: ExprLike) -> Expr:
        return div(as_expr(self), as_expr(other))

    def __mod__(self, other: ExprLike) -> Expr:
        return mod(as_expr(self), as_expr(other))

    def __xor__(self, other: ExprLike) -> Expr:
        return xor(as_expr(self), as_expr(other))


@dataclass(frozen=True, slots=True)
class Int(_Arithmetic):
    """A literal."""

    value: int

    @property
    def lo(self) -> int:
        return self.value

    @property
    def hi(self) -> int:
        return self.value


@dataclass(frozen=True, slots=True)
class Named(_Arithmetic):
    """A compile-time constant with a C name; `definition` says how it follows from others."""

    name: str
    definition: Expr
    note: str = field(default="", compare=False)
    value: int = field(init=False)

    def __post_init__(self) -> None:
        value = constant(self.definition)
        assert value is not None, f"{self.name} is not a constant"
        object.__setattr__(self, "value", value)

    @property
    def lo(self) -> int:
        return self.value

    @property
    def hi(self) -> int:
        return self.value


@dataclass(frozen=True, slots=True)
class Var(_Arithmetic):
    """A run-time integer in [0, extent); printed as its name."""

    name: str
    extent: int = UNBOUNDED

    @property
    def lo(self) -> int:
        return 0

    @property
    def hi(self) -> int:
        return self.extent - 1


@dataclass(frozen=True, slots=True)
class Bound(_Arithmetic):
    """A sub-expression that the emitted code computes once under a name."""

    name: str
    value: Expr

    @property
    def lo(self) -> int:
        return self.value.lo

    @property
    def hi(self) -> int:
        return self.value.hi


@dataclass(frozen=True, slots=True)
class Op(_Arithmetic):
    """A binary operation; built by the functions below, which simplify first."""

    kind: OpKind
    left: Expr
    right: Expr
    lo: int = field(compare=False)
    hi: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Choice(_Arithmetic):
    """`then` where `condition` is 1, `otherwise` where it is 0; built by `choose`."""

    condition: Expr
    then: Expr
    otherwise: Expr

    @property
    def lo(self) -> int:
        return min(self.then.lo, self.otherwise.lo)

    @property
    def hi(self) -> int:
        return max(self.then.hi, self.otherwise.hi)


Expr = Int | Named | Var | Bound | Op | Choice
ExprLike = Expr | int | _Arithmetic


def as_expr(value: ExprLike) -> Expr:
    if isinstance(value, int):
        return Int(value)
    assert isinstance(value, (Int, Named, Var, Bound, Op, Choice))
    return value


def constant(expr: Expr) -> int | None:
    """The value of a compile-time constant, else None."""
    match expr:
        case Int(value=value) | Named(value=value):
            return value
        case Op():
            left, right = constant(expr.left), constant(expr.right)
            return None if left is None or right is None else _apply(expr.kind, left, right)
        case Bound():
            return constant(expr.value)
        case Var() | Choice():
            return None
        case _:
            assert_never(expr)


def _apply(kind: OpKind, left: int, right: int) -> int:
    value: int = OPERATORS[kind].apply(left, right)
    return value


def _make(kind: OpKind, left: Expr, right: Expr, lo: int, hi: int) -> Expr:
    a, b = constant(left), constant(right)
    if a is not None and b is not None:
        lo = hi = _apply(kind, a, b)
        if isinstance(left, Int) and isinstance(right, Int):
            return Int(lo)
    return Op(kind, left, right, max(lo, -UNBOUNDED), min(hi, UNBOUNDED))


def add(left: Expr, right: Expr) -> Expr:
    if constant(left) == 0:
        return right
    if constant(right) == 0:
        return left
    return _make("+", left, right, left.lo + right.lo, left.hi + right.hi)


def sub(left: Expr, right: Expr) -> Expr:
    if constant(right) == 0:
        return left
    return _make("-", left, right, left.lo - right.hi, left.hi - right.lo)


def mul(left: Expr, right: Expr) -> Expr:
    a, b = constant(left), constant(right)
    if a == 0 or b == 0:
        return Int(0)
    if a == 1:
        return right
    if b == 1:
        return left
    return _make("*", left, right, left.lo * right.lo, left.hi * right.hi)


def div(left: Expr, right: Expr) -> Expr:
    """left / right for a positive constant right; sheds every multiple of it."""
    _refuse_negative(left)
    divisor = constant(right)
    assert divisor is None or divisor > 0
    if divisor == 1:
        return left
    if divisor is None or constant(left) is not None:
        return _make("/", left, right, 0, left.hi)
    multiples, rest = _split_multiples(left, divisor)
    if rest is None or rest.hi < divisor:
        quotient: Expr = Int(0)
    else:
        quotient = _make("/", rest, right, rest.lo // divisor, rest.hi // divisor)
    for factor, scale in multiples:
        value = constant(scale)
        # A summand may be negative where the sum is not; of a multiple nothing is rounded.
        share = Int(value // divisor) if value is not None and value < 0 else div(scale, right)
        quotient = add(quotient, mul(factor, share))
    return quotient


def mod(left: Expr, right: Expr) -> Expr:
    """left % right for a positive constant right; sheds every multiple of it."""
    _refuse_negative(left)
    divisor = constant(right)
    assert divisor is None or divisor > 0
    if divisor == 1:
        return Int(0)
    if divisor is None or constant(left) is not None:
        return _make("%", left, right, 0, right.hi)
    _, rest = _split_multiples(left, divisor)
    if rest is None:
        return Int(0)
    if rest.hi < divisor:
        return rest
    return _make("%", rest, right, 0, divisor - 1)


def _refuse_negative(expr: Expr) -> None:
    if expr.lo < 0:
        raise ValueError(f"{expr} may be negative, where C and Python divide differently")


def xor(left: Expr, right: Expr) -> Expr:
    _refuse_negative(left)
    _refuse_negative(right)
    if constant(left) == 0:
        return right
    if constant(right) == 0:
        return left
    return _make("^", left, right, 0, (1 << max(left.hi, right.hi).bit_length()) - 1)


def less(left: Expr, right: Expr) -> Expr:
    """1 where left < right, else 0."""
    return _make("<", left, right, 0, 1)


def equal(left: Expr, right: Expr) -> Expr:
    """1 where left == right, else 0."""
    return _make("==", left, right, 0, 1)


def unequal(left: Expr, right: Expr) -> Expr:
    """1 where left != right, else 0."""
    return _make("!=", left, right, 0, 1)


def either(left: Expr, right: Expr) -> Expr:
    """1 where left or right is not 0, else 0."""
    for one, other in ((left, right), (right, left)):
        if constant(one):
            return Int(1)
        if constant(one) == 0 and 0 <= other.lo <= other.hi <= 1:
            return other
    return _make("||", left, right, 0, 1)


def both(left: Expr, right: Expr) -> Expr:
    """1 where left and right are not 0, else 0."""
    for one, other in ((left, right), (right, left)):
        if constant(one) == 0:
            return Int(0)
        if constant(one) and 0 <= other.lo <= other.hi <= 1:
            return other
    return _make("&&", left, right, 0, 1)


def choose(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """`then` where the condition, 0 or 1, holds, else `otherwise`; evaluation computes both."""
    assert 0 <= condition.lo <= condition.hi <= 1
    known = constant(condition)
    if known is not None:
        return then if known else otherwise
    return then if then == otherwise else Choice(condition, then, otherwise)


def least(left: Expr, right: Expr) -> Expr:
    """The smaller of the two: CUDA's `min`."""
    if left.hi <= right.lo:
        return left
    if right.hi <= left.lo:
        return right
    return _make("min", left, right, min(left.lo, right.lo), min(left.hi, right.hi))


def wrap(left: Expr, right: Expr) -> Expr:
    """left % right for 0 <= left < 2 * right: one comparison, where a division would be dearer."""
    count = constant(right)
    assert count is not None
    assert 0 <= left.lo <= left.hi < 2 * count
    if left.hi < count:
        return left
    return _make("wrap", left, right, 0, count - 1)


def terms(expr: Expr) -> Iterator[Expr]:
    """The summands of a sum, from left to right."""
    if isinstance(expr, Op) and expr.kind == "+":
        yield from terms(expr.left)
        yield from terms(expr.right)
    else:
        yield expr


def _split_multiples(expr: Expr, divisor: int) -> tuple[list[tuple[Expr, Expr]], Expr | None]:
    """`expr` as a sum of (factor, scale) with scale a multiple of `divisor`, and the rest of it.

    Where the rest alone may be negative it is the whole of `expr`, which is not.
    """
    multiples: list[tuple[Expr, Expr]] = []
    rest: Expr | None = None
    for term in terms(expr):
        value = constant(term)
        if value is not None and value % divisor == 0:
            multiples.append((Int(1), term))
            continue
        if isinstance(term, Op) and term.kind == "*":
            scale = constant(term.right)
            if scale is not None and scale % divisor == 0:
                multiples.append((term.left, term.right))
                continue
        rest = term if rest is None else add(rest, term)
    if rest is not None and rest.lo < 0:
        return [], expr
    return multiples, rest


def evaluate(expr: Expr, env: Mapping[str, Array | int]) -> Array | int:
    """The value for integers or broadcastable int64 arrays of the variables; KeyError if one is missing."""
    match expr:
        case Int(value=value) | Named(value=value):
            return value
        case Var():
            return env[expr.name]
        case Bound():
            return evaluate(expr.value, env)
        case Op():
            result: Array | int = OPERATORS[expr.kind].apply(
                evaluate(expr.left, env), evaluate(expr.right, env)
            )
            return result
        case Choice():
            holds = evaluate(expr.condition, env)
            return holds * evaluate(expr.then, env) + (1 - holds) * evaluate(expr.otherwise, env)
        case _:
            assert_never(expr)
