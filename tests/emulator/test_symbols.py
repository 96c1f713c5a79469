"""Where a compiled library calls the checker, read from its machine code."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

import gemmdsl
from gemmdsl.emulator import symbols
from gemmdsl.emulator.builder import build
from tests.emulator.samples import PIPELINE

EM_X86_64, EM_AARCH64 = 62, 183


@pytest.mark.parametrize(
    ("machine", "code", "calls"),
    [
        (EM_X86_64, b"\x90\xe8\x10\x00\x00\x00\x90", [(6, 16)]),
        (EM_X86_64, b"\xe8\xfb\xff\xff\xff", [(5, -5)]),
        (EM_X86_64, b"\xe8\xfb\xff\xff", []),
        # bl 8 bytes on, a nop, bl 4 bytes back
        (EM_AARCH64, struct.pack("<III", 0x94000002, 0xD503201F, 0x97FFFFFF), [(4, 4), (12, -8)]),
        (EM_AARCH64, b"\x02\x00\x00", []),
    ],
)
def test_calls_of_each_processor(machine: int, code: bytes, calls: list[tuple[int, int]]) -> None:
    assert list(symbols._CALLS[machine](code)) == calls


def test_every_access_of_a_kernel_is_placed_in_its_text() -> None:
    def read(path: Path) -> tuple[bytes, tuple[symbols.Place, ...]]:
        data = path.read_bytes()
        sites = symbols.call_sites(data, re.compile(r"__tsan_(read|write)\d+"))
        with path.open("rb") as file:
            return data, symbols.places(file, sites)

    data, found = build(PIPELINE, read, checked=True)
    assert len(found) > 10
    assert any("pipeline_edge" in place.functions for place in found)
    assert symbols.call_sites(data, re.compile("no_such_function")) == ()
    assert symbols.call_sites(b"text", re.compile(".*")) == ()


def test_without_the_tool_no_place_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmdsl.emulator.symbols.shutil.which", lambda name: None)
    with Path(gemmdsl.__file__).open("rb") as file:
        (place,) = symbols.places(file, (1,))
    assert str(place) == "on an unknown line"
    assert place.functions == ()
