"""Breaks lines that are too long for a reader, so that templates need not count columns."""

from __future__ import annotations

from collections.abc import Iterator

WIDTH = 100
# What a clause of a comment ends with.
_CLAUSE = (";", ":", ".")
# The one opening brace with a blank line after it.
NAMESPACE = "namespace {"
# Where a line may go on after an operator, if it has to.
_OPERATORS = ("+", "^", "&&")


def tidy(text: str) -> str:
    """`text` without trailing blanks, without runs of blank lines, and with long lines broken."""
    lines: list[str] = []
    for line in text.splitlines():
        line = line.rstrip()
        if line.lstrip().startswith("#"):
            line = line.lstrip()
        if line or (lines and lines[-1] and (not lines[-1].endswith("{") or lines[-1] == NAMESPACE)):
            lines.extend(_broken(line))
    return "\n".join(lines).rstrip() + "\n"


def _broken(line: str) -> Iterator[str]:
    """The line in pieces of at most WIDTH columns, where it has commas (or blanks, in a comment)."""
    if len(line) <= WIDTH:
        yield line
    elif line.lstrip().startswith("//"):
        yield from _broken_comment(line)
    else:
        yield from _broken_list(line) if _long_list(line) is not None else _broken_sum(line)


def _broken_sum(line: str) -> Iterator[str]:
    """An assignment, continued at the last outermost operator that fits."""
    indent = len(line) - len(line.lstrip()) + 4
    cuts = [at for operator in ("+", "&&") for at in _outermost(line, operator) if at < WIDTH]
    if not cuts:
        yield line
        return
    yield line[: cuts[-1] - 1].rstrip()
    yield " " * indent + line[cuts[-1] :]


def _outermost(line: str, operator: str) -> list[int]:
    """Positions of an operator with blanks around it that stands in no parentheses."""
    found, depth = [], 0
    for position, character in enumerate(line):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and line[position - 1 : position + len(operator) + 1] == f" {operator} ":
            found.append(position)
    return found


def _broken_comment(line: str) -> Iterator[str]:
    """A `// label     text` comment, continued under its text."""
    head = line[: len(line) - len(line.lstrip("/ "))]
    label = line[len(head) :].split("  ", 1)
    column = len(line) - len(label[1].lstrip()) if len(label) == 2 else len(head)
    first, others = line[:column], head.rstrip().ljust(column)
    for number, part in enumerate(_even(line[column:].split(" "), WIDTH - column)):
        yield ((others if number else first) + part).rstrip()


def _even(words: list[str], width: int) -> list[str]:
    """The words in as few lines of `width` columns as hold them, and in these as evenly as can be.

    Lines end with a clause where they can and are not very short then, so that what belongs together is read
    together.
    """
    # Of the words up to each one: how many lines, how many of them end within a clause, the longest, and
    # where the last one begins.
    best: list[tuple[int, int, int, int]] = [(0, 0, 0, 0)]
    for end in range(1, len(words) + 1):
        clause = words[end - 1].endswith(_CLAUSE)
        found = []
        for start in range(end - 1, -1, -1):
            length = len(" ".join(words[start:end]))
            if length > width and start < end - 1:
                break
            lines, cut, longest, _ = best[start]
            within = end < len(words) and not (clause and length >= width // 4)
            found.append((lines + 1, cut + within, max(longest, length), start))
        best.append(min(found))
    parts: list[str] = []
    end = len(words)
    while end:
        start = best[end][3]
        parts.insert(0, " ".join(words[start:end]))
        end = start
    return parts


def _broken_list(line: str) -> Iterator[str]:
    """A parenthesised list, continued under its first item."""
    open_at = _long_list(line)
    assert open_at is not None
    current, items = line[: open_at + 1], _items(line[open_at + 1 :])
    indent = " " * (open_at + 1)
    for item in items:
        alone = len(indent) + len(item.rstrip()) > WIDTH
        if len(current) + len(item.rstrip()) > WIDTH and not (alone and current.endswith("(")):
            yield current.rstrip()
            current = indent
        current += item
        while len(current.rstrip()) > WIDTH and (cut := _last_operator(current)):
            yield current[:cut].rstrip()
            current = f"{indent}    {current[cut:].lstrip()}"
    yield current.rstrip()


def _last_operator(line: str) -> int:
    """Where a line may be cut behind an operator, in parentheses or not; 0 for nowhere."""
    indent = len(line) - len(line.lstrip())
    starts = {operator: line.rfind(f" {operator} ", indent, WIDTH + 1) for operator in _OPERATORS}
    return max((at + 1 + len(operator) for operator, at in starts.items() if at > 0), default=0)


def _long_list(line: str) -> int | None:
    """Where the first outermost parenthesis with a long list opens."""
    opened: list[tuple[int, str]] = []
    for position, character in enumerate(line):
        if character in "([{":
            opened.append((position, character))
        elif character in ")]}" and opened:
            start, kind = opened.pop()
            if kind == "(" and position - start > 40 and start < 60 and not opened:
                return start
    return None


def _items(text: str) -> list[str]:
    """`text` cut after each comma that is not inside parentheses of its own."""
    items, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        elif character == "," and depth == 0:
            items.append(text[start : position + 2])
            start = position + 2
    return [*items, text[start:]]
