"""Text to syntax tree, with lark; the only module that knows lark.

Several syntax errors are found in one run: after an error the parser picks up again at the next word that
starts an option, an item or a declaration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, cast

from lark import Lark, Token, Transformer, UnexpectedToken, v_args
from lark.tree import Meta

from gemmdsl import syntax
from gemmdsl.diagnostics import Diagnostic, Note, error
from gemmdsl.resources import grammar_text
from gemmdsl.source import Source, Span
from gemmdsl.suggest import nearest

MAX_SYNTAX_ERRORS = 50
MAX_DIGITS = 40
MAX_TOKENS = 120_000

_OPTION_WORDS = (
    *("BLOCK", "WARP", "LANES", "THREAD", "STAGE", "STORE"),
    *("BUFFERS", "FRAGMENTS", "FMA", "UNROLL", "RASTER", "MIN_BLOCKS", "SPLIT_K", "ASSUME"),
)
_ITEM_WORDS = ("VECTOR", "LOAD", "READ", "TRANSPOSE", "PAD", "SWIZZLE")
_DECLARATIONS = ("PROBLEM", "SCHEDULE")
_RESUME = frozenset((*_OPTION_WORDS, *_ITEM_WORDS, *_DECLARATIONS, "NO", "PREFER", "RBRACE", "$END"))
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMENT = re.compile(r"#[^\n]*")
# What other languages put between extents, and before what.
_TIMES = frozenset(("*", ",", "X", "\N{MULTIPLICATION SIGN}"))
_PUNCTUATION = {";": ("LBRACE", "RBRACE", "$END"), "=": ("INT", "LBRACE")}
_PUNCTUATION |= {",": _PUNCTUATION[";"], ":": _PUNCTUATION["="]}
_NUMBER_FOLLOWS = re.compile(r"\s*[0-9]")
_IN_SHAPE = re.compile(r"(?P<operand>\w+)\s*:\s*\w+\s*\[(?P<first>[^\[\],]*,)?\s*$")
_AXES = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}


def parse(source: Source) -> tuple[syntax.File, tuple[Diagnostic, ...]]:
    """The tree of a source, and its syntax errors.

    With errors the tree has what could still be read; `File.broken` tells which declarations are incomplete.
    """
    return _Run(source).file()


class _Everything:
    """Tells lark to keep the terminal for characters that no rule uses."""

    always_accept = ("STRANGE",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return stream


@cache
def _lark() -> Lark:
    return Lark(
        grammar_text(),
        parser="lalr",
        lexer="basic",
        propagate_positions=True,
        maybe_placeholders=False,
        postlex=_Everything(),
    )


class _Run:
    """One parse: feeds tokens, notes errors, and finds the way back after one."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.errors: list[Diagnostic] = []
        self.cut = False
        # Errors after which all that was meant is known.
        self.mended: set[int] = set()
        # Lark's interactive parser has methods without types.
        self.parser: Any = _lark().parse_interactive()
        self.previous: Token | None = None
        self.refused: Token | None = None

    def file(self) -> tuple[syntax.File, tuple[Diagnostic, ...]]:
        tokens = self._tokens()
        token = next(tokens)
        while True:
            try:
                result = self.parser.feed_token(self._as_name(token))
            except UnexpectedToken:
                try:
                    token = self._recover(token, tokens)
                except StopIteration:
                    # Nothing of what was begun can end where the text does: the errors are all there is.
                    result = None
                    break
                continue
            if token.type == "$END":
                break
            self.previous, token = token, next(tokens)
        version, declarations = cast(
            tuple[syntax.Version | None, tuple[syntax.ProblemDecl | syntax.ScheduleDecl, ...]],
            (None, ()) if result is None else _Builder().transform(result),
        )
        places = (found.span.start for found in self.errors if found.span)
        broken = tuple(place for place in places if place not in self.mended)
        if self.cut or len(self.errors) > MAX_SYNTAX_ERRORS:
            # What is declared in the rest, nobody knows.
            broken += (len(self.source.text),)
        tree = syntax.File(self.source, version, declarations, _comments(self.source.text), broken)
        return tree, tuple(self.errors)

    def _tokens(self) -> Iterator[Token]:
        end = 0
        for count, token in enumerate(_lark().lex(self.source.text)):
            end = _span(token).end
            if count == MAX_TOKENS:
                text = f"a file has at most {MAX_TOKENS:,} words, numbers and signs: the rest is not read"
                self._report(token, text, "G004")
                self.cut = True
                break
            if token.type == "INT" and len(token) > MAX_DIGITS:
                self._report(token, f"a number of {len(token)} digits is longer than any size can be", "G012")
                yield Token.new_borrow_pos("INT", "1", token)
            else:
                yield token
        yield Token("$END", "", start_pos=end, end_pos=end)

    def _as_name(self, token: Token) -> Token:
        """A word of the language where only a name can stand is a name."""
        actions = self.parser.choices()
        if token.type in actions or "NAME" not in actions or token.type in _DECLARATIONS:
            return token
        return Token.new_borrow_pos("NAME", str(token), token) if _WORD.fullmatch(token) else token

    def _recover(self, token: Token, tokens: Iterator[Token]) -> Token:
        """Reports the token, and gives the next one to feed, with the parser in a state that takes it."""
        accepted = self.parser.accepts() - {"STRANGE"}
        if token is self.refused or len(self.errors) > MAX_SYNTAX_ERRORS:
            return self._resume(token, tokens)
        for missing, brace in (("RBRACE", "}"), ("LBRACE", "{")):
            fits = token.type in (*_DECLARATIONS, "$END") if brace == "}" else token.type in _RESUME
            if missing in accepted and fits:
                self._report(token, f"expected `{brace}` before {_shown(token)}")
                self.parser.feed_token(
                    Token(missing, brace, start_pos=token.start_pos, end_pos=token.start_pos)
                )
                return token
        # The token of the end is an empty text, and as such not true.
        follows = self._foreign(token, accepted, tokens)
        if follows is None:
            follows = self._misread(token, accepted)
        return self._resume(token, tokens) if follows is None else follows

    def _foreign(self, token: Token, accepted: set[str], tokens: Iterator[Token]) -> Token | None:
        """Reports what another language has in this place; gives the token that stands for it or follows."""
        place = _span(token)
        meant: Token | None = None
        if "_X" in accepted and token in _TIMES and _NUMBER_FOLLOWS.match(self.source.text, place.end):
            text = f"extents have `x` between them, as in `128 x 128 x 8`, not `{token}`"
            meant = Token.new_borrow_pos("_X", "x", token)
        elif token.type == "INT" and (shape := _IN_SHAPE.search(self.source.text, 0, place.start)):
            axis = _AXES.get(shape["operand"], ("M", "N"))[shape["first"] is not None]
            text = f"a shape names axes, `{axis}` here, not `{token}`: sizes come with each call"
            if 1 < int(token) < 65536:
                text += f"; a schedule may say `assume {axis} % {int(token)} == 0`"
            meant = Token.new_borrow_pos("NAME", axis, token)
        elif not accepted.isdisjoint(_PUNCTUATION.get(token, ())):
            text = f"`{token}` is not needed here: words and numbers follow each other without it"
        else:
            return None
        self._report(token, text)
        self.mended.add(place.start)
        return next(tokens) if meant is None else meant

    def _misread(self, token: Token, accepted: set[str]) -> Token | None:
        """Reports the token; gives the word that was probably meant instead of it, if there is one."""
        words = [word for word, terminal in _WORDS.items() if terminal in accepted]
        if accepted == {"COLON"} and self.previous is not None:
            self._report(
                self.previous, f"`{self.previous}` is neither an order (`row`, `col`) nor an operand"
            )
        elif _WORD.fullmatch(token) and words and "NAME" not in accepted:
            known = Note("known here", ", ".join(["x"] * ("_X" in accepted) + words))
            meant = None if token in _WORDS else nearest(token, words)
            if meant is not None:
                self._report(token, f"unknown word `{token}`; did you mean `{meant}`?", "G011", known)
                return Token.new_borrow_pos(_WORDS[meant], meant, token)
            text = f"`{token}` cannot stand here" if token in _WORDS else f"unknown word `{token}`"
            self._report(token, text, "G011", known)
        else:
            self._report(token, f"expected {_listed(accepted)}, found {_shown(token)}")
        return None

    def _resume(self, token: Token, tokens: Iterator[Token]) -> Token:
        """Skips to a token that ends or follows something begun, and drops what was begun and not ended."""
        stack = self.parser.parser_state.state_stack
        values = self.parser.parser_state.value_stack
        states = self.parser.parser_state.parse_conf.parse_table.states
        if token is self.refused:
            # The state on top takes the token only to find, after reducing, that it cannot follow.
            stack.pop()
            values.pop()
        depth = 0
        exhausted = len(self.errors) > MAX_SYNTAX_ERRORS
        while True:
            if token.type in (*_DECLARATIONS, "$END"):
                depth = 0
            wanted = token.type in _RESUME and depth == 0 and (not exhausted or token.type == "$END")
            if wanted and any(token.type in states[state] for state in stack):
                break
            depth = max(0, depth + (token.type == "LBRACE") - (token.type == "RBRACE"))
            token = next(tokens)
        if token.type in (*_DECLARATIONS, "$END"):
            # What stands before the error is kept: its declaration ends here.
            braces = [value.type for value in values if isinstance(value, Token)]
            for _ in range(braces.count("LBRACE") - braces.count("RBRACE")):
                self._unwind("RBRACE")
                self.parser.feed_token(
                    Token("RBRACE", "}", start_pos=token.start_pos, end_pos=token.start_pos)
                )
        self._unwind(token.type)
        self.refused = token
        return token

    def _unwind(self, terminal: str) -> None:
        """Drops what was begun and not ended, until the terminal can follow."""
        state = self.parser.parser_state
        while terminal not in state.parse_conf.parse_table.states[state.state_stack[-1]]:
            state.state_stack.pop()
            state.value_stack.pop()

    def _report(self, token: Token, message: str, code: str = "G010", *notes: Note) -> None:
        if len(self.errors) > MAX_SYNTAX_ERRORS or self.cut:
            return
        self.errors.append(Diagnostic(code, message, self.source, _span(token), notes))
        if len(self.errors) == MAX_SYNTAX_ERRORS:
            text = f"{MAX_SYNTAX_ERRORS} syntax errors: the rest of the file is not read"
            self.errors.append(error("G019", text, self.source, _span(token)))


def _comments(text: str) -> tuple[syntax.Comment, ...]:
    found = []
    for match in _COMMENT.finditer(text):
        comment = match.group().rstrip()
        found.append(syntax.Comment(comment, Span(match.start(), match.start() + len(comment))))
    return tuple(found)


def _span(token: Token) -> Span:
    return Span(cast(int, token.start_pos), cast(int, token.end_pos))


def _shown(token: Token) -> str:
    return "the end of the file" if token.type == "$END" else f"`{token}`"


def _listed(accepted: set[str]) -> str:
    """`a name, a number or ...`, in the order of `_SHOWN`."""
    names = [shown for terminal, shown in _SHOWN.items() if terminal in accepted]
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


_WORDS = {
    name.lower(): name
    for name in (
        *("GEMM", "PROBLEM", "SCHEDULE", "EXTENDS", "FOR", "ON", "ROW", "COL"),
        *("COLUMN", "PAIRED", "AS", "ASYNC", "ATOMIC", "AT", "FIRST", "ALONG", "SNAKE", "ALIGNED"),
        *_OPTION_WORDS,
        *_ITEM_WORDS,
        *("PREFER", "NO"),
    )
} | {"A": "A", "B": "B"}
_SHOWN = (
    {"NAME": "a name", "INT": "a number"}
    | {terminal: f"`{word}`" for word, terminal in _WORDS.items()}
    | {"LBRACE": "`{`", "RBRACE": "`}`", "LSQB": "`[`", "RSQB": "`]`", "COLON": "`:`", "COMMA": "`,`"}
    | {"ASSIGN": "`=`", "PLUS": "`+`", "TIMES": "`*`", "MATMUL": "`@`", "PERCENT": "`%`", "EQUALS": "`==`"}
    | {"_X": "`x`", "$END": "the end of the file"}
)


@v_args(meta=True)
class _Builder(Transformer[Token, object]):
    """Turns lark's reductions into nodes of `gemmdsl.syntax`; one method per rule of the grammar."""

    def start(self, meta: Meta, children: list[Any]) -> object:
        version = next((node for node in children if isinstance(node, syntax.Version)), None)
        return version, tuple(node for node in children if not isinstance(node, syntax.Version))

    def version(self, meta: Meta, children: list[Any]) -> syntax.Version:
        return syntax.Version(_number(children[0]), _place(meta))

    def problem(self, meta: Meta, children: list[Any]) -> syntax.ProblemDecl:
        return syntax.ProblemDecl(_name(children[0]), tuple(children[1:]), _place(meta))

    def operand(self, meta: Meta, children: list[Any]) -> syntax.OperandDecl:
        name, dtype, rows, cols = map(_name, children[:4])
        order = next((_name(child) for child in children[4:] if isinstance(child, Token)), None)
        product = next((child for child in children[4:] if isinstance(child, syntax.Sum)), None)
        return syntax.OperandDecl(name, dtype, rows, cols, order, product, _place(meta))

    def sum(self, meta: Meta, children: list[Any]) -> syntax.Sum:
        return syntax.Sum(tuple(children), _place(meta))

    def term(self, meta: Meta, children: list[Any]) -> syntax.Term:
        return syntax.Term(tuple(map(_name, children[::2])), tuple(map(str, children[1::2])), _place(meta))

    def schedule(self, meta: Meta, children: list[Any]) -> syntax.ScheduleDecl:
        clauses = tuple(child for child in children[1:] if isinstance(child, syntax.Clause))
        options = tuple(child for child in children[1:] if not isinstance(child, syntax.Clause))
        return syntax.ScheduleDecl(_name(children[0]), clauses, options, _place(meta))

    def clause(self, meta: Meta, children: list[Any]) -> syntax.Clause:
        return syntax.Clause(cast(Any, str(children[0])), _name(children[1]), _place(meta))

    def option(self, meta: Meta, children: list[Any]) -> syntax.Option | syntax.Reset:
        if isinstance(children[-1], syntax.Reset):
            reset = children[-1]
            return syntax.Reset(reset.word, reset.operand, _place(meta))
        return syntax.Option(children[-1], len(children) == 2, _place(meta))

    def block(self, meta: Meta, children: list[Any]) -> syntax.Block:
        return syntax.Block(children[0], _place(meta))

    def warp(self, meta: Meta, children: list[Any]) -> syntax.Warp:
        return syntax.Warp(children[0], _place(meta))

    def lanes(self, meta: Meta, children: list[Any]) -> syntax.Lanes:
        return syntax.Lanes(children[0], _name(children[1]) if len(children) == 2 else None, _place(meta))

    def thread(self, meta: Meta, children: list[Any]) -> syntax.Thread:
        return syntax.Thread(children[0], children[1] if len(children) == 2 else None, _place(meta))

    def stage(self, meta: Meta, children: list[Any]) -> syntax.StageDecl:
        return syntax.StageDecl("stage", _name(children[0]), tuple(children[1:]), _place(meta))

    def store(self, meta: Meta, children: list[Any]) -> syntax.StageDecl:
        return syntax.StageDecl("store", _name(children[0]), tuple(children[1:]), _place(meta))

    def buffers(self, meta: Meta, children: list[Any]) -> syntax.Buffers:
        return syntax.Buffers(_number(children[0]), len(children) > 1, tuple(children[2:]), _place(meta))

    def copy_steps(self, meta: Meta, children: list[Any]) -> syntax.CopyStepsOf:
        return syntax.CopyStepsOf(None, tuple(map(_number, children)), _place(meta))

    def copy_steps_a(self, meta: Meta, children: list[Any]) -> syntax.CopyStepsOf:
        return syntax.CopyStepsOf(_name(children[0]), tuple(map(_number, children[1:])), _place(meta))

    copy_steps_b = copy_steps_a

    def fragments(self, meta: Meta, children: list[Any]) -> syntax.Fragments:
        first = _name(children[1]) if len(children) == 2 else None
        return syntax.Fragments(_number(children[0]), first, _place(meta))

    def fma(self, meta: Meta, children: list[Any]) -> syntax.Fma:
        return syntax.Fma(_name(children[0]), len(children) == 2, _place(meta))

    def unroll(self, meta: Meta, children: list[Any]) -> syntax.Unroll:
        return syntax.Unroll(_number(children[0]), _place(meta))

    def raster(self, meta: Meta, children: list[Any]) -> syntax.Raster:
        along = _name(children[1]) if len(children) == 2 else None
        return syntax.Raster(_number(children[0]), along, _place(meta))

    def min_blocks(self, meta: Meta, children: list[Any]) -> syntax.MinBlocks:
        return syntax.MinBlocks(_number(children[0]), _place(meta))

    def split_k(self, meta: Meta, children: list[Any]) -> syntax.SplitK:
        return syntax.SplitK(_number(children[0]), len(children) == 2, _place(meta))

    def assume(self, meta: Meta, children: list[Any]) -> syntax.AssumeMultiple | syntax.AssumeAligned:
        if len(children) == 1:
            return syntax.AssumeAligned(_name(children[0]), _place(meta))
        axis, multiple, _, remainder = children
        return syntax.AssumeMultiple(_name(axis), _number(multiple), _number(remainder), _place(meta))

    def extents(self, meta: Meta, children: list[Any]) -> syntax.Extents:
        return syntax.Extents(tuple(map(_number, children)), _place(meta))

    def item(self, meta: Meta, children: list[Any]) -> syntax.Item | syntax.ItemReset:
        last = children[-1]
        place = _place(meta)
        if isinstance(last, syntax.ItemReset):
            return syntax.ItemReset(last.words, place)
        if isinstance(last, Token):
            last = syntax.Transpose(_span(last)) if last.type == "TRANSPOSE" else syntax.Swizzle(_span(last))
        return syntax.Item(last, len(children) == 2, place)

    def vector(self, meta: Meta, children: list[Any]) -> syntax.Vector:
        access: Literal["load", "store", "read"] | None = None
        if len(children) == 2:
            access = cast(Any, str(children[0]))
        return syntax.Vector(access, _number(children[-1]), _place(meta))

    def pad(self, meta: Meta, children: list[Any]) -> syntax.Pad:
        return syntax.Pad(_number(children[0]), _place(meta))

    def reset(self, meta: Meta, children: list[Any]) -> syntax.Reset:
        operand = _name(children[1]) if len(children) == 2 else None
        return syntax.Reset(str(children[0]), operand, _place(meta))

    def item_reset(self, meta: Meta, children: list[Any]) -> syntax.ItemReset:
        return syntax.ItemReset(" ".join(map(str, children)), _place(meta))


def _name(token: Token) -> syntax.Name:
    return syntax.Name(str(token), _span(token))


def _number(token: Token) -> syntax.Number:
    return syntax.Number(int(token), _span(token))


def _place(meta: Meta) -> Span:
    return Span(meta.start_pos, meta.end_pos)
