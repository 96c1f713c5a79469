"""The canonical layout of a `.gemm` text.

Comments, groups of lines (one blank line between two) and the order of options are kept; the meaning is the
same, and a formatted text is formatted to itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from gemmdsl import syntax
from gemmdsl.diagnostics import GemmError
from gemmdsl.parser import parse
from gemmdsl.source import Source, Span

WIDTH = 100
_INDENT = "  "
_CLAUSES = ("extends", "for", "on")


def format_source(source: Source) -> str:
    """The text in canonical layout, ending in a newline; GemmError with its syntax errors if it has any."""
    tree, found = parse(source)
    if found:
        raise GemmError(found)
    return _Formatter(tree).text()


@dataclass(frozen=True, slots=True)
class _Line:
    """A line to print, and the text of the source that it stands for."""

    level: int
    text: str
    span: Span
    opens: bool = False
    closes: bool = False


class _Formatter:
    def __init__(self, tree: syntax.File) -> None:
        self.tree = tree
        self.source = tree.source.text

    def text(self) -> str:
        lines: list[_Line] = []
        if self.tree.version is not None:
            lines.append(_Line(0, f"gemm {self.tree.version.number.value}", self.tree.version.span))
        for declaration in self.tree.declarations:
            match declaration:
                case syntax.ProblemDecl(name, operands, span):
                    body = [_Line(1, _operand(operand), operand.span) for operand in operands]
                    lines += self._block(f"problem {name.text}", name.span.end, body, span)
                case syntax.ScheduleDecl():
                    lines += self._schedule(declaration)
                case _:
                    assert_never(declaration)
        return self._woven(lines)

    def _schedule(self, decl: syntax.ScheduleDecl) -> list[_Line]:
        clauses = sorted(decl.clauses, key=lambda clause: _CLAUSES.index(clause.word))
        head = " ".join([f"schedule {decl.name.text}", *(f"{c.word} {c.name.text}" for c in clauses)])
        end = max([decl.name.span.end, *(clause.span.end for clause in clauses)])
        body = [line for option in decl.options for line in self._option(option)]
        return self._block(head, end, body, decl.span)

    def _option(self, option: syntax.Option | syntax.Reset) -> list[_Line]:
        match option:
            case syntax.Reset(word, operand, span):
                return [_Line(1, f"no {word}" + (f" {operand.text}" if operand else ""), span)]
            case syntax.Option(setting, prefer, span):
                before = "prefer " * prefer
                if not isinstance(setting, syntax.StageDecl):
                    return [_Line(1, before + _setting(setting), span)]
                head = f"{before}{setting.word} {setting.operand.text}"
                body = [_Line(2, _item(item), item.span) for item in setting.items]
                return self._block(head, setting.operand.span.end, body, span, level=1)
            case _:
                assert_never(option)

    def _block(self, head: str, head_end: int, body: list[_Line], span: Span, level: int = 0) -> list[_Line]:
        """A head with its braces: on one line if it fits, and for a declaration if it was so written."""
        brace = self._brace(head_end)
        short = f"{head} {{ {_INDENT.join(line.text for line in body)} }}" if body else f"{head} {{}}"
        one_line = level > 0 or not body or "\n" not in self.source[brace : span.end]
        fits = len(_INDENT * level + short) <= WIDTH and not any(line.opens for line in body)
        commented = any(brace < comment.span.start < span.end for comment in self.tree.comments)
        if one_line and fits and not commented:
            return [_Line(level, short, span)]
        opening = _Line(level, f"{head} {{", Span(span.start, brace + 1), opens=True)
        return [opening, *body, _Line(level, "}", Span(span.end - 1, span.end), closes=True)]

    def _brace(self, start: int) -> int:
        """The opening brace after an offset, those in comments not counted."""
        inside = [comment.span for comment in self.tree.comments if comment.span.end > start]
        at = self.source.index("{", start)
        while any(span.start <= at < span.end for span in inside):
            at = self.source.index("{", at + 1)
        return at

    def _woven(self, lines: list[_Line]) -> str:
        """The lines with the comments between and behind them."""
        printed: list[str] = []
        comments = list(self.tree.comments)
        before: _Line | syntax.Comment | None = None

        def put(element: _Line | syntax.Comment, level: int, text: str, last_end: int) -> None:
            nonlocal before
            if before is not None and self._apart(before, element, last_end):
                printed.append("")
            printed.append(_INDENT * level + text)
            before = element

        end = 0
        for line in lines:
            while comments and comments[0].span.start < line.span.end:
                comment = comments.pop(0)
                put(comment, line.level + line.closes, comment.text, end)
                end = comment.span.end
            put(line, line.level, line.text, min(end, line.span.start))
            end = line.span.end
            if comments and self._behind(line, comments[0]):
                comment = comments.pop(0)
                printed[-1] += f"  {comment.text}"
                end = comment.span.end
        for comment in comments:
            put(comment, 0, comment.text, end)
            end = comment.span.end
        return "".join(f"{line}\n" for line in printed)

    def _apart(self, before: _Line | syntax.Comment, after: _Line | syntax.Comment, end: int) -> bool:
        """Whether a blank line goes between two elements; `end` is where the first one ends in the source."""
        if (isinstance(before, _Line) and before.opens) or (isinstance(after, _Line) and after.closes):
            return False
        if isinstance(before, _Line) and before.level == 0:
            return True
        return self.source.count("\n", end, max(end, after.span.start)) > 1

    def _behind(self, line: _Line, comment: syntax.Comment) -> bool:
        """Whether a comment stands behind the end of a line's text, on the same line."""
        between = self.source[line.span.end : comment.span.start]
        return "\n" not in between and not between.strip()


def _operand(operand: syntax.OperandDecl) -> str:
    text = f"{operand.name.text}: {operand.dtype.text}[{operand.rows.text}, {operand.cols.text}]"
    if operand.order is not None:
        text += f" {operand.order.text}"
    if operand.product is not None:
        text += " = " + " + ".join(_term(term) for term in operand.product.terms)
    return text


def _term(term: syntax.Term) -> str:
    rest = zip(term.operators, term.factors[1:], strict=True)
    return term.factors[0].text + "".join(f" {operator} {factor.text}" for operator, factor in rest)


def _setting(setting: syntax.Setting) -> str:
    match setting:
        case syntax.Block(extents):
            return f"block {_extents(extents)}"
        case syntax.Warp(extents):
            return f"warp {_extents(extents)}"
        case syntax.Lanes(extents, order):
            return f"lanes {_extents(extents)}" + (f" {order.text}" if order else "")
        case syntax.Thread(extents, piece):
            return f"thread {_extents(extents)}" + (f" as {_extents(piece)}" if piece else "")
        case syntax.Buffers(count, asynchronous, at):
            return f"buffers {count.value}{' async' * asynchronous}{''.join(map(_steps, at))}"
        case syntax.Fragments(count, first):
            return f"fragments {count.value}" + (f" {first.text} first" if first else "")
        case syntax.Fma(along, snake):
            return f"fma along {along.text}{' snake' * snake}"
        case syntax.Unroll(count):
            return f"unroll {count.value}"
        case syntax.Raster(count, axis):
            return f"raster {count.value}" + (f" along {axis.text}" if axis else "")
        case syntax.MinBlocks(count):
            return f"min_blocks {count.value}"
        case syntax.SplitK(count, atomic):
            return f"split_k {count.value}{' atomic' * atomic}"
        case syntax.AssumeMultiple(axis, multiple, remainder):
            return f"assume {axis.text} % {multiple.value} == {remainder.value}"
        case syntax.AssumeAligned(operand):
            return f"assume aligned {operand.text}"
        case syntax.StageDecl():
            raise AssertionError("a stage is a block of lines")
        case _:
            assert_never(setting)


def _item(item: syntax.Item | syntax.ItemReset) -> str:
    if isinstance(item, syntax.ItemReset):
        return f"no {item.words}"
    before = "prefer " * item.prefer
    match item.setting:
        case syntax.Vector(access, width):
            return f"{before}{access + ' ' if access else ''}vector {width.value}"
        case syntax.Transpose():
            return f"{before}transpose"
        case syntax.Swizzle():
            return f"{before}swizzle"
        case syntax.Pad(count):
            return f"{before}pad {count.value}"
        case _:
            assert_never(item.setting)


def _extents(extents: syntax.Extents) -> str:
    return " x ".join(str(number.value) for number in extents.numbers)


def _steps(at: syntax.CopyStepsOf) -> str:
    operand = f" {at.operand.text}" if at.operand else ""
    return f"{operand} at {' '.join(str(step.value) for step in at.steps)}"
