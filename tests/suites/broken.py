"""Invalid input: texts and schedules that are wrong at random get coded diagnostics, never a traceback."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import fields, replace

from gemmdsl.api import compile_spec
from gemmdsl.checker import analyse, check
from gemmdsl.diagnostics import Severity, render_all
from gemmdsl.inheritance import options_of
from gemmdsl.rules import violations
from gemmdsl.rules_options import Options, StageOptions, derive
from gemmdsl.source import Source
from gemmdsl.spec import Assumption, CopySteps, LaneOrder, Problem
from gemmdsl.target import TARGETS, Target
from gemmdsl.testing import program_text
from tests.suites.designs import DESIGNS, LAYOUTS, problem
from tests.suites.tally import Tally

# What stands behind a word and cannot be said without it.
_BEHIND = {
    "lanes": ("lane_order",),
    "thread": ("piece",),
    "buffers": ("asynchronous",),
    "asynchronous": ("copy_steps",),
    "fragments": ("read_first",),
    "fma_along": ("fma_snake",),
    "raster": ("raster_along",),
    "split_k": ("split_atomic",),
}
_TOKENS = re.compile(r"[A-Za-z_]\w*|-?\d+|\s+|.", re.DOTALL)
_STEPS = (
    *3 * (CopySteps(),),
    *(CopySteps((step,), (step,)) for step in (1, 3, 300)),
    CopySteps((0, 2), (3, 1)),
)
_NUMBERS = ("0", "1", "-1", "3", "7", "32", "64", "1000", "1025", "65537", "1" + 30 * "0", "-0", "007")
_STRANGE = (
    "\x00",
    "é",
    "\u202e",
    "ß",
    "\t",
    "\r\n",
    '"',
    "{",
    "}",
    "#",
    "@",
    "::",
    "\U0001f600",
    "x",
    "%",
    "=",
)
_WORDS = re.findall(
    r"\S+",
    """
gemm problem schedule extends for on block warp lanes thread as stage store buffers async min_blocks
fragments first fma snake unroll raster along split_k atomic assume
aligned vector load read transpose swizzle pad prefer no row col column paired f32 f64
A B C M N K D alpha beta sm_75 sm_80 sm_999 v0 v1
""",
)


def texts() -> list[str]:
    """Right files to begin with: the designs, one by one."""
    found = []
    for turn, (name, design) in enumerate(DESIGNS.items()):
        wanted = problem(list(LAYOUTS)[turn % 4])
        found.append(program_text(wanted, {name: (design(wanted), "sm_80")}))
    extended = "\nschedule more extends {} {{ buffers 2 no min_blocks prefer stage B {{ pad 4 }} }}\n"
    return [*found, *(text + extended.format(name) for text, name in zip(found, DESIGNS, strict=True))]


def mutate(text: str, rng: random.Random) -> str:
    """The text with one to three random edits."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        tokens = _TOKENS.findall(text)
        if not tokens:
            return text
        at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(9):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[other])
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                numbers = [index for index, token in enumerate(tokens) if token.lstrip("-").isdigit()]
                if numbers:
                    tokens[rng.choice(numbers)] = rng.choice(_NUMBERS)
            case 4:
                tokens[at] = rng.choice(_WORDS)
            case 5:
                tokens.insert(at, f" {rng.choice(_WORDS)} ")
            case 6:
                tokens.insert(at, rng.choice(_STRANGE))
            case 7:
                tokens = tokens[:at] if rng.random() < 0.3 else tokens
                if tokens and len(word := tokens[at % len(tokens)]) > 1:
                    cut = rng.randrange(len(word))
                    tokens[at % len(tokens)] = word[:cut] + word[cut + 1 :]
            case _:
                first, last = sorted((at, min(len(tokens), at + rng.randrange(1, 12))))
                tokens[at:at] = tokens[first:last]
        text = "".join(tokens)
    return text


def options(rng: random.Random) -> Options:
    """Words with any values at all, most of them near to legal ones."""

    def number() -> int:
        return rng.choice((1, 2, 4, 8, 16, 32, 64, 128, 3, 5, 6, 12, 0, 1024, 2048, 10**12))

    def pair() -> tuple[int, ...]:
        return (number(), number())

    def maybe(value: object) -> object:
        return value if rng.random() < 0.5 else None

    def stage() -> StageOptions:
        widths = [maybe(rng.choice((1, 2, 4, 3, 0, 8))) for _ in range(4)]
        pad = maybe(rng.choice((0, 1, 4, 64, 65)))
        return StageOptions(*widths, rng.random() < 0.5, pad, rng.random() < 0.3)  # type: ignore[arg-type]

    assumptions = [
        Assumption(axis=axis, multiple=number())  # type: ignore[arg-type]
        for axis in "MNK"
        if rng.random() < 0.1
    ]
    assumptions += [Assumption(operand=name) for name in "ABC" if rng.random() < 0.1]  # type: ignore[arg-type]
    words = Options(
        block=pair() if rng.random() < 0.2 else (*pair(), max(1, number())),
        warp=maybe(pair()),  # type: ignore[arg-type]
        lanes=maybe(rng.choice(((4, 8), (8, 4), (32, 1), (3, 8), pair()))),  # type: ignore[arg-type]
        lane_order=rng.choice(list(LaneOrder)),
        thread=maybe(pair()),  # type: ignore[arg-type]
        piece=maybe(pair()),  # type: ignore[arg-type]
        a=stage(),
        b=stage(),
        c_vector=maybe(rng.choice((1, 2, 4, 3))),  # type: ignore[arg-type]
        buffers=maybe(rng.choice((1, 2, 3, 8, 16, 17))),  # type: ignore[arg-type]
        asynchronous=rng.random() < 0.3,
        copy_steps=rng.choice(_STEPS),
        fragments=maybe(rng.choice((1, 2, 0, 3))),  # type: ignore[arg-type]
        read_first=rng.choice(("A", "B")),  # type: ignore[arg-type]
        fma_along=maybe(rng.choice(("M", "N"))),  # type: ignore[arg-type]
        fma_snake=rng.random() < 0.3,
        unroll=maybe(rng.choice((1, 2, 4, 3, 0, 257))),  # type: ignore[arg-type]
        raster=maybe(rng.choice((1, 2, 5, 64, 0, 65))),  # type: ignore[arg-type]
        raster_along=rng.choice(("M", "N")),  # type: ignore[arg-type]
        min_blocks=maybe(rng.choice((1, 2, 16, 32, 33))),  # type: ignore[arg-type]
        split_k=maybe(rng.choice((1, 2, 3, 5, 0, 65536))),  # type: ignore[arg-type]
        split_atomic=rng.random() < 0.3,
        assumptions=tuple(assumptions),
    )
    return sayable(words)


def perturbed(rng: random.Random, right: Options) -> Options:
    """A legal schedule with one or two of its words drawn without regard to the rules."""
    wild = options(rng)
    for _ in range(rng.choice((1, 1, 2))):
        word = rng.choice([field.name for field in fields(Options)])
        right = replace(right, **{word: getattr(wild, word)})
    return sayable(right)


def sayable(words: Options) -> Options:
    """The words without those that stand behind a word that is not there: no file can have them."""
    plain = Options(words.block)
    for word, behind in _BEHIND.items():
        if getattr(words, word) == getattr(plain, word):
            words = replace(words, **{item: getattr(plain, item) for item in behind})
    return words


def said(text: str, words: Options, wanted: Problem) -> bool:
    """Whether the text of schedule `s`, lawful or not, says what the words say."""
    declared = analyse(Source("said.gemm", text))[0].declared.get("s")
    if declared is None:
        return False
    return derive("s", options_of(declared.entries), wanted) == derive("s", words, wanted)


def run(count: int, start: int) -> Tally:
    """Of `count` inputs, half are mutated texts, the others schedules drawn without regard to the rules: in
    one or two words, and checked as a file; or in all of them, and asked of the rules alone."""
    tally = Tally()
    rng = random.Random(start)
    right = texts()
    targets = list(TARGETS.values())
    for turn in range(count):
        text = ""
        if turn % 2 == 0:
            text = mutate(rng.choice(right), rng)
            wrong, _ = _read(text, tally, "mutated texts")
        else:
            wanted, target = problem(rng.choice(list(LAYOUTS))), rng.choice(targets)
            wild = turn % 4 == 1
            words = options(rng) if wild else perturbed(rng, rng.choice(list(DESIGNS.values()))(wanted))
            wrong, broken = _rules(words, wanted, target)
            if wild:
                tally.counts["wild schedules refused" if broken else "wild schedules accepted"] += 1
            if not wild or not broken or turn % 64 == 1:
                text = program_text(wanted, {"s": (words, target.name)})
                more, refused = _read(text, tally, "schedules")
                wrong += more
                if not said(text, words, wanted):
                    wrong.append("the text says another schedule")
                if broken != refused:
                    wrong.append(f"the rules refuse: {broken}, the checker refuses: {refused}")
        tally.failures += [f"{message}\n{text}" for message in wrong]
    return tally


def _read(text: str, tally: Tally, kind: str) -> tuple[list[str], bool]:
    """Check a text; what is wrong with the way in which that was done, and whether it was refused."""
    try:
        source = Source("mutant.gemm", text)
        found = check(source)
        rendered = render_all(found)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"], False
    errors = [one for one in found if one.severity is Severity.ERROR]
    tally.counts[f"{kind} refused" if errors else f"{kind} accepted"] += 1
    # An empty file has no place to point to.
    wrong = [f"{one.code} has no place" for one in errors if one.span is None and text.strip()]
    wrong += [f"{one.code} is no code" for one in errors if not re.fullmatch(r"G\d{3}", one.code)]
    if errors and not rendered:
        wrong.append("nothing to show")
    return (wrong if errors else wrong + list(_compile(source))), bool(errors)


def _compile(source: Source) -> Iterator[str]:
    """What is accepted has to compile, its proofs holding."""
    program, _ = analyse(source)
    for name in program.schedules:
        try:
            compile_spec(program.spec(name))
        except Exception as error:
            yield f"accepted, and yet {type(error).__name__}: {error}"


def _rules(words: Options, wanted: Problem, target: Target) -> tuple[list[str], bool]:
    """Ask the rules; what went wrong, and whether one is broken."""
    try:
        found = violations(derive("s", words, wanted), wanted, target)
        return [f"{one.rule.code} says nothing" for one in found if not one.message], bool(found)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"], True
