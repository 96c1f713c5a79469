"""Source to Program to Spec: everything that can be wrong with a `.gemm` file is found here.

A file is read as far as it can be: syntax errors, wrong names and broken rules are reported in one run.  What
builds on a mistake is judged as far as it does not depend on how that is put right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike

from gemmdsl import syntax
from gemmdsl.diagnostics import Diagnostic, GemmError, Note, Severity, error
from gemmdsl.inheritance import UNKNOWN, Words, merge
from gemmdsl.names import check_name, check_symbol
from gemmdsl.parser import parse
from gemmdsl.problems import problem_of
from gemmdsl.reader import normal, read
from gemmdsl.resolution import Declared, resolve
from gemmdsl.rules_options import Options
from gemmdsl.rules_repair import Adviser
from gemmdsl.source import Source, Span
from gemmdsl.spec import Operand, Order, Problem, Spec
from gemmdsl.suggest import nearest
from gemmdsl.target import TARGETS, Target

LANGUAGE = 1
MAX_FINDINGS = 100
MAX_GUESSES = 20

# What stands in for a problem and a target that are not known.
_PROBLEM = Problem(
    "",
    Operand("A", "M", "K", Order.ROW),
    Operand("B", "K", "N", Order.ROW),
    Operand("C", "M", "N", Order.ROW),
)
_TARGET = next(reversed(TARGETS.values()))


@dataclass(frozen=True, slots=True)
class Program:
    """A file whose names and structure are sound; whether a schedule keeps the rules, `spec` tells.

    `unsound` are the schedules of a file with mistakes that can still be held against some rules.
    """

    source: Source
    problems: Mapping[str, Problem]
    declared: Mapping[str, Declared] = field(repr=False)
    unsound: tuple[Declared, ...] = field(default=(), repr=False)
    unused: tuple[syntax.ProblemDecl, ...] = field(default=(), repr=False)

    @property
    def schedules(self) -> tuple[str, ...]:
        """Names of the schedules, in the order of the file."""
        return tuple(self.declared)

    def spec(self, schedule: str | None = None, target: str | None = None) -> Spec:
        """The checked Spec of a schedule, for its own target or another one.

        `schedule` may be left out when the file has exactly one.  Raises GemmError with every rule that the
        schedule breaks, or for an unknown schedule or target.
        """
        chosen = self._chosen(schedule)
        on = chosen.target if target is None else known_target(target)
        outcome = resolve(self.source, chosen, on, Adviser())
        if outcome.errors:
            raise GemmError(outcome.errors)
        fallbacks = tuple(note.message for note in outcome.notes)
        return Spec(chosen.problem, outcome.schedule, on, self.source.file, LANGUAGE, fallbacks)

    def options(self, schedule: str, target: Target) -> Options:
        """What the words of a schedule ask for on a target, without preferred ones that were dropped."""
        return resolve(self.source, self._chosen(schedule), target, Adviser()).options

    def check(self, target: str | None = None) -> tuple[Diagnostic, ...]:
        """Findings about every schedule on its own target or another one, and warnings; empty if all is well.

        Of schedules that are not sound, only what is wrong however they are put right.  Raises GemmError for
        an unknown target.
        """
        on = None if target is None else known_target(target)
        found: list[Diagnostic] = []
        adviser = Adviser()
        for declared in (*self.unsound, *self.declared.values()):
            outcome = resolve(self.source, declared, on or declared.target, adviser)
            found += (*outcome.errors, *outcome.notes)
            if len(found) > MAX_FINDINGS:
                break
        for decl in self.unused:
            text = f"problem `{decl.name.text}` has no schedule"
            found.append(Diagnostic("G801", text, self.source, decl.name.span, (), Severity.WARNING))
        return _in_order(found)

    def _chosen(self, name: str | None) -> Declared:
        names = ", ".join(self.schedules)
        if name is None:
            if len(self.declared) == 1:
                return next(iter(self.declared.values()))
            text = (
                f"there are {len(self.declared)} schedules: name one"
                if self.declared
                else "there is no schedule"
            )
            raise GemmError([error("G107", text, self.source, schedules=names or "none")])
        if name not in self.declared:
            text = f"there is no schedule `{name}`{_meant(name, self.declared)}"
            raise GemmError([error("G107", text, self.source, schedules=names or "none")])
        return self.declared[name]


def load(path: str | PathLike[str]) -> Program:
    """The program in a file; `-` is standard input.

    Raises GemmError with everything that is wrong whichever schedule is chosen: reading, syntax, names.
    """
    return _sound(read(path))


def loads(text: str, name: str = "<string>") -> Program:
    """The program in a text; `name` is what diagnostics call it.  Raises GemmError as `load` does."""
    return _sound(Source(name, normal(text)))


def check(source: Source, target: str | None = None) -> tuple[Diagnostic, ...]:
    """Everything to say about a source, in the order of its text: syntax, names, rules, warnings.

    `target` stands in for that of every schedule; GemmError if there is none of that name.
    """
    program, found = analyse(source)
    return _in_order([*found, *program.check(target)])


def analyse(source: Source) -> tuple[Program, tuple[Diagnostic, ...]]:
    """The sound part of a source as a program, and what is wrong with the rest."""
    tree, found = parse(source)
    analysis = _Analysis(tree)
    program = analysis.program()
    return program, _in_order([*found, *analysis.found])


def known_target(name: str) -> Target:
    """The target of that name; GemmError with the nearest one for an unknown name."""
    if name not in TARGETS:
        text = f"there is no target `{name}`{_meant(name, TARGETS)}"
        raise GemmError([error("G105", text, targets=", ".join(TARGETS))])
    return TARGETS[name]


def _sound(source: Source) -> Program:
    program, found = analyse(source)
    if found:
        raise GemmError(found)
    return program


def _in_order(found: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    """By place; a finding that several schedules inherit is kept once, at the first.

    Of more than MAX_FINDINGS errors the rest is left out, and that is said.
    """
    unique: dict[tuple[str, Span | None, str], Diagnostic] = {}
    for diagnostic in found:
        unique.setdefault((diagnostic.code, diagnostic.span, diagnostic.message), diagnostic)
    ordered = sorted(unique.values(), key=lambda diagnostic: diagnostic.order)
    errors = [diagnostic for diagnostic in ordered if diagnostic.severity is Severity.ERROR]
    if len(errors) <= MAX_FINDINGS:
        return tuple(ordered)
    last = errors[MAX_FINDINGS]
    text = f"more than {MAX_FINDINGS} errors: from here on they are not shown"
    return (*errors[:MAX_FINDINGS], error("G019", text, last.source, last.span))


def _meant(name: str, known: Mapping[str, object]) -> str:
    guess = nearest(name, known)
    return f"; did you mean `{guess}`?" if guess else ""


class _Analysis:
    """One file: its declarations by name, and what is wrong with them."""

    def __init__(self, tree: syntax.File) -> None:
        self.tree, self.source = tree, tree.source
        self.found: list[Diagnostic] = []
        # Problems that are sound, and all whose layouts are known.
        self.problems: dict[str, Problem] = {}
        self.layouts: dict[str, Problem] = {}
        self.declarations: dict[str, syntax.ProblemDecl | syntax.ScheduleDecl] = {}
        self.schedules: dict[str, syntax.ScheduleDecl] = {}
        self.problem_decls: dict[str, syntax.ProblemDecl] = {}
        self.declared: dict[str, Declared | None] = {}
        self.meant: dict[tuple[str, str], str] = {}
        spans = [declaration.span for declaration in tree.declarations]
        # A declaration whose name could not be read may be the one that another one names.
        self.complete = all(any(span.start <= at < span.end for span in spans) for at in tree.broken)

    def report(self, code: str, message: str, span: Span | None, **notes: Span | str) -> None:
        labelled = []
        for label, value in notes.items():
            text = value
            if isinstance(value, Span):
                line, column = self.source.position(value.start)
                text = f"line {line}, column {column}"
            labelled.append(Note(label.replace("_", " "), str(text)))
        self.found.append(Diagnostic(code, message, self.source, span, tuple(labelled)))

    def program(self) -> Program:
        self._version()
        for declaration in self.tree.declarations:
            self._declare(declaration)
        for decl in self.problem_decls.values():
            before = len(self.found)
            problem = problem_of(decl, self.report) if not self._broken(decl) else None
            if problem is not None:
                self.layouts[decl.name.text] = problem
                if len(self.found) == before:
                    self.problems[decl.name.text] = problem
        for name in self.schedules:
            for unresolved in reversed(self._lineage(name)):
                self.declared[unresolved] = self._schedule(unresolved)
        known = [found for name in self.schedules if (found := self.declared[name]) is not None]
        symbols = ((one.problem.name, one.decl.name) for one in known if "problem" not in one.words.doubtful)
        check_symbol(symbols, self.report)
        declared = {one.name: one for one in known if one.sound}
        unsound = tuple(one for one in known if not one.sound and "block" in one.entries)
        named = {
            clause.name.text
            for decl in self.schedules.values()
            for clause in decl.clauses
            if clause.word == "for"
        }
        unused = tuple(
            decl for name, decl in self.problem_decls.items() if name in self.problems and name not in named
        )
        return Program(self.source, self.problems, declared, unsound, unused if self.complete else ())

    def _version(self) -> None:
        version = self.tree.version
        if not self.tree.declarations and not self.tree.broken:
            text = "there is nothing in this file: it has neither a problem nor a schedule"
            read = [node.span for node in (version, *self.tree.comments) if node is not None]
            # A sign that is not needed is not read, and yet a place.
            start = len(self.source.text) - len(self.source.text.lstrip())
            signs = [Span(start, start + 1)] if start < len(self.source.text) else []
            self.report("G005", text, next(iter((*read, *signs)), None))
        elif version is None and self.complete:
            start = self.tree.declarations[0].span.start
            self.report("G020", f"the first line must be `gemm {LANGUAGE}`", Span(start, start + 1))
        if version is not None and version.number.value != LANGUAGE:
            text = f"language version {version.number.value} is not known: this is version {LANGUAGE}"
            self.report("G021", text, version.number.span)

    def _declare(self, declaration: syntax.ProblemDecl | syntax.ScheduleDecl) -> None:
        name = declaration.name
        kind = "problem" if isinstance(declaration, syntax.ProblemDecl) else "schedule"
        before = (self.problem_decls if kind == "problem" else self.schedules).get(name.text)
        if before is not None:
            self.report(
                "G101", f"{kind} `{name.text}` is declared twice", name.span, first_declared=before.name.span
            )
            return
        check_name(name, self.report)
        if isinstance(declaration, syntax.ProblemDecl):
            self.problem_decls[name.text] = declaration
        else:
            self.schedules[name.text] = declaration

    def _broken(self, declaration: syntax.ProblemDecl | syntax.ScheduleDecl) -> bool:
        span = declaration.span
        return any(span.start <= offset <= span.end for offset in self.tree.broken)

    def _lineage(self, name: str) -> list[str]:
        """The schedule and those it extends that are not yet resolved, the root last."""
        chain: dict[str, None] = {}
        while name in self.schedules and name not in self.declared:
            if name in chain:
                circle = list(chain)[list(chain).index(name) :]
                shown = " -> ".join((*circle, name)) if len(circle) < 8 else f"{len(circle)} schedules"
                clause = _clauses(self.schedules[circle[-1]], "extends")[0]
                self.report("G104", f"schedules extend each other in a circle: {shown}", clause.name.span)
                self.declared.update(dict.fromkeys(circle))
                break
            chain[name] = None
            extends = _clauses(self.schedules[name], "extends")
            name = extends[0].name.text if extends else ""
        return [name for name in chain if name not in self.declared]

    def _schedule(self, name: str) -> Declared:
        """The schedule with all that it inherits, its parent being resolved or not known."""
        decl = self.schedules[name]
        before = len(self.found)
        for word in ("extends", "for", "on"):
            for again in _clauses(decl, word)[1:]:
                self.report("G115", f"`{word}` is given twice", again.span)
        extends = _clauses(decl, "extends")
        parent = self._parent(name, extends[0]) if extends else None
        problem = self._problem(decl, parent)
        target = self._target(decl, parent)
        if self._broken(decl):
            # Which of its words were lost, nobody knows.
            return Declared(decl, problem or _PROBLEM, target or _TARGET, UNKNOWN, sound=False)
        inherited = parent.words if parent else UNKNOWN if extends else Words({}, frozenset())
        depth = max((entry.depth for entry in inherited.entries.values()), default=-1) + 1
        words = merge(decl, inherited, depth, self.report)
        lost = {word for word, known in (("problem", problem), ("target", target)) if known is None}
        words = Words(words.entries, words.doubtful - {"problem", "target"} | lost)
        if "block" not in words.entries and "block" not in words.doubtful:
            self.report("G108", f"schedule `{name}` has no `block`", decl.name.span)
        sound = len(self.found) == before and not words.doubtful and "block" in words.entries
        sound = sound and problem is not None and problem.name in self.problems
        sound = sound and (parent is None or parent.sound)
        return Declared(decl, problem or _PROBLEM, target or _TARGET, words, sound)

    def _meant(self, kind: str, name: str, known: Mapping[str, object]) -> str:
        # The many unknown names that a program writes are not looked up one by one in its many known ones.
        if (kind, name) not in self.meant:
            self.meant[kind, name] = _meant(name, known) if len(self.meant) < MAX_GUESSES else ""
        return self.meant[kind, name]

    def _parent(self, name: str, clause: syntax.Clause) -> Declared | None:
        parent = clause.name.text
        if parent not in self.schedules and self.complete:
            meant = self._meant("schedule", parent, self.schedules)
            text = f"schedule `{name}` extends `{parent}`, which is not declared{meant}"
            self.report("G103", text, clause.name.span)
        return self.declared.get(parent)

    def _problem(self, decl: syntax.ScheduleDecl, parent: Declared | None) -> Problem | None:
        """The problem, or None when it is not known."""
        clauses = _clauses(decl, "for")
        if not clauses:
            self._missing(
                decl, "which problem it is for", write=f"schedule {decl.name.text} for PROBLEM on TARGET"
            )
            return parent.problem if parent and "problem" not in parent.words.doubtful else None
        name = clauses[0].name.text
        if name not in self.problem_decls and self.complete:
            meant = self._meant("problem", name, self.problem_decls)
            self.report("G102", f"there is no problem `{name}`{meant}", clauses[0].name.span)
        return self.layouts.get(name) if _agree(clauses) else None

    def _target(self, decl: syntax.ScheduleDecl, parent: Declared | None) -> Target | None:
        """The target, or None when it is not known."""
        clauses = _clauses(decl, "on")
        if not clauses:
            self._missing(decl, "which target it runs on", write="on TARGET", targets=", ".join(TARGETS))
            return parent.target if parent and "target" not in parent.words.doubtful else None
        name = clauses[0].name.text
        if name not in TARGETS:
            text = f"there is no target `{name}`{self._meant('target', name, TARGETS)}"
            self.report("G105", text, clauses[0].name.span, targets=", ".join(TARGETS))
        return TARGETS.get(name) if _agree(clauses) else None

    def _missing(self, decl: syntax.ScheduleDecl, what: str, **notes: str) -> None:
        """Reports a clause that is neither given nor inherited, unless it may be among what was not read."""
        if not _clauses(decl, "extends") and not self._broken(decl):
            self.report("G106", f"schedule `{decl.name.text}` does not say {what}", decl.name.span, **notes)


def _agree(clauses: list[syntax.Clause]) -> bool:
    """Whether clauses of one word all name the same."""
    return len({clause.name.text for clause in clauses}) == 1


def _clauses(decl: syntax.ScheduleDecl, word: str) -> list[syntax.Clause]:
    return [clause for clause in decl.clauses if clause.word == word]
