"""Runs one block of a kernel: control flow, barriers, and a count of every access to memory.

All threads run at once.  Where they part ways, those with the lowest address go first; threads of a warp meet
again where the code says so, see `gemmdsl.analysis.sass.convergence`.  Data in memory is not simulated: what
is loaded is not known, and a kernel whose addresses or branches depend on it cannot be evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from gemmdsl.analysis.banks import BANKS, INACTIVE, WORD, AccessKind, warps_wavefronts
from gemmdsl.analysis.sass.convergence import Convergence
from gemmdsl.analysis.sass.decode import Step
from gemmdsl.analysis.sass.listing import Function, Instruction
from gemmdsl.analysis.sass.registers import (
    CannotEvaluate,
    PredicateReader,
    Reader,
    Registers,
    is_predicate,
    next_register,
    predicate_reader,
    reader,
)
from gemmdsl.analysis.sass.steps import step
from gemmdsl.analysis.sectors import SECTOR, sectors
from gemmdsl.target import WARP_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gemmdsl.analysis.sass.registers import Mask

__all__ = ["AccessTotal", "CannotEvaluate", "Execution", "run_block"]

AddressReader = Callable[[Registers, "Mask | None"], "NDArray[np.int64]"]
Space = Literal["shared", "global"]
# Atomic additions happen in global memory alone.
Kind = AccessKind | Literal["add"]

# mnemonic -> the access it makes; copies make two.
_MEMORY: dict[str, tuple[Space, Kind]] = {
    "LDS": ("shared", "load"),
    "STS": ("shared", "store"),
    "LDG": ("global", "load"),
    "STG": ("global", "store"),
    "RED": ("global", "add"),
    "REDG": ("global", "add"),
}
_ADDRESS = re.compile(r"^(?:desc\[UR\d+\])?\[(?P<inner>[^\]]*)\]$")
_SCALED = re.compile(r"^(?P<register>R(?:Z|\d+))\.X(?P<scale>4|8|16)$")
_CONTROL = ("BRA", "EXIT", "BAR", "CALL", "BSYNC")
_STEPS_LIMIT = 20_000_000


# Requests, cost, ideal, cost of the dearest warp, its addresses, and those that it copied from.
_Cost = tuple[int, int, int, int, tuple[int, ...], tuple[int, ...]]


@dataclass(slots=True)
class AccessTotal:
    """What one instruction did in one memory over a run.

    `requests` are warps' executions with an active lane; `cost` is in wavefronts (shared) or sectors
    (global), `ideal` what it could be.  `example` holds the 32 addresses of its dearest execution, in words
    (shared) or bytes (global), INACTIVE for a lane that took no part; `sources` are the words that it read,
    if it was a copy.  `lowest` is the lowest byte address.
    """

    space: Space
    kind: Kind
    width: int
    requests: int = 0
    cost: int = 0
    ideal: int = 0
    example: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    dearest: int = 0
    lowest: int = (1 << 63) - 1


@dataclass(slots=True)
class Execution:
    """A block's run: `issued[i]` is how often instruction i was issued for a warp, or for a part of one.

    `threads[i]` counts the threads that executed it: those for which its guard held.
    """

    issued: NDArray[np.int64]
    threads: NDArray[np.int64]
    accesses: dict[tuple[int, Space], AccessTotal] = field(default_factory=dict)


def run_block(
    function: Function, constants: Mapping[int, int], block: int, threads: int, block_y: int = 0
) -> Execution:
    """Runs a block of `threads` threads; `constants` are the words of constant bank 0 by their offsets.

    Those of other banks are the function's.  `block` and `block_y` are its places along the first two axes of
    the grid.

    CannotEvaluate when the code has an instruction that this model does not know, or when an address or a
    branch depends on data.
    """
    warps = -(-threads // WARP_SIZE)
    registers = Registers(warps * WARP_SIZE, {**function.banks, 0: constants}, block, block_y)
    return _Machine(function, registers, threads).run()


class _Machine:
    def __init__(self, function: Function, registers: Registers, threads: int) -> None:
        self.code = function.code
        # Lanes that a last warp lacks are there, but have ended before they begin.
        missing = registers.threads - threads
        threads += missing
        self.registers = registers
        self.threads = threads
        self.convergence = Convergence(threads)
        self.result = Execution(*np.zeros((2, len(self.code)), dtype=np.int64))
        self.steps = [self._prepared(index) for index in range(len(self.code))]
        self.guards = [self._guard(instruction) for instruction in self.code]
        self.place = np.zeros(threads, dtype=np.int64)
        self.waiting = np.zeros(threads, dtype=np.bool_)
        self.done = np.arange(threads) >= threads - missing
        self.costs: dict[tuple[int, Space, bytes, bytes], _Cost] = {}

    def run(self) -> Execution:
        budget = _STEPS_LIMIT
        while not self.done.all():
            ready = ~(self.done | self.waiting | self.convergence.blocked)
            if not ready.any():
                if not self.convergence.release(self.done):
                    self._pass_barrier()
                continue
            start = int(self.place[ready].min())
            active = self.convergence.leaders(ready & (self.place == start))
            # Warps that are further on join in there.
            others = self.place[ready & (self.place > start)]
            stop = int(others.min()) if others.size else len(self.code)
            budget -= self._straight(start, stop, active)
            if budget < 0:
                raise CannotEvaluate("the kernel does not end")
        return self.result

    def _pass_barrier(self) -> None:
        """Everyone who is still there has reached the barrier of the block."""
        if not self.waiting.any():
            raise CannotEvaluate("threads wait for others that never come")
        self.convergence.join(self.waiting)
        self.waiting[:] = False

    def _straight(self, start: int, stop: int, active: Mask) -> int:
        """Runs the active threads from `start` until they branch, wait or meet others at `stop`."""
        mask = None if active.all() else active
        count = int(active.sum())
        index = start
        while index < stop:
            instruction = self.code[index]
            if instruction.mnemonic in _CONTROL:
                self._control(index, active)
                index += 1
                break
            action = self.steps[index]
            if action is not None:
                guarded = self._taken(index, mask)
                if guarded is None or guarded.any():
                    action(self.registers, guarded)
                if guarded is not None:
                    self.result.threads[index] += int(guarded.sum()) - count
            index += 1
        else:
            self.place[active] = stop
        warps = int(active.reshape(-1, WARP_SIZE).any(axis=1).sum())
        self.result.issued[start:index] += warps
        self.result.threads[start:index] += count
        return index - start

    def _taken(self, index: int, active: Mask | None) -> Mask | None:
        """The active threads for which the guard holds, None for all of the block."""
        guard = self.guards[index]
        if guard is None:
            return active
        value = guard(self.registers, active)
        if value is None:
            raise CannotEvaluate(f"{self.code[index].opcode} is guarded by a value that depends on data")
        return value if active is None else value & active

    def _control(self, index: int, active: Mask) -> None:
        instruction = self.code[index]
        taken = self._taken(index, active)
        assert taken is not None
        self.place[active] = index + 1
        match instruction.mnemonic:
            case "EXIT":
                self.done |= taken
            case "BAR":
                self.waiting |= taken
            case "BSYNC":
                self.convergence.arrive(instruction.operands[0], taken)
                self.convergence.release(self.done)
            case _:
                if instruction.target is None:
                    raise CannotEvaluate(f"{instruction.opcode} to an address that is computed")
                for text in instruction.operands:
                    value = predicate_reader(text)(self.registers, active)
                    if value is None:
                        raise CannotEvaluate("a branch depends on data")
                    taken = taken & value
                self.convergence.part(active, taken)
                self.place[taken] = instruction.target

    @staticmethod
    def _guard(instruction: Instruction) -> PredicateReader | None:
        if instruction.predicate is None:
            return None
        return predicate_reader(f"{'!' if instruction.negated else ''}{instruction.predicate}")

    def _prepared(self, index: int) -> Step | None:
        instruction = self.code[index]
        try:
            return self._meant(index, instruction)
        except CannotEvaluate as reason:
            # It may never be reached: padding after the end, a path that the arguments rule out.
            return _failing(str(reason))
        except (IndexError, ValueError, StopIteration):
            # Another release of the disassembler may write operands in another way.
            return _failing(f"operands of {instruction.opcode}")

    def _meant(self, index: int, instruction: Instruction) -> Step | None:
        """What an instruction does, but for those that say where to go on; CannotEvaluate as `step`."""
        mnemonic = instruction.mnemonic
        if mnemonic in _CONTROL:
            return None
        if mnemonic in ("BSSY", "BREAK", "BMOV"):
            return self._meeting(instruction)
        if mnemonic in _MEMORY:
            return self._memory(index)
        if mnemonic == "LDGSTS":
            return self._copy(index)
        return step(instruction)

    def _meeting(self, instruction: Instruction) -> Step:
        """Who is to meet at a convergence barrier."""
        everyone = np.ones(self.threads, dtype=np.bool_)
        barrier, *source = instruction.operands

        def run(registers: Registers, active: Mask | None) -> None:
            threads = everyone if active is None else active
            match instruction.mnemonic:
                case "BSSY":
                    self.convergence.enter(barrier, threads)
                case "BREAK":
                    self.convergence.leave(instruction.operands[-1], threads)
                case _:
                    self.convergence.move(barrier, source[0], threads)

        return run

    def _memory(self, index: int) -> Step:
        instruction = self.code[index]
        words, width = instruction.operands, instruction.width
        space, kind = _MEMORY[instruction.mnemonic]
        total = self._total(index, space, kind)
        address = _address_reader(next(word for word in words if _ADDRESS.match(word)), space)
        loaded = (
            [next_register(words[0].partition(".")[0], word) for word in range(width // WORD)]
            if kind == "load"
            else []
        )

        def run(registers: Registers, active: Mask | None) -> None:
            self._count(index, total, address(registers, active), active, None)
            for name in loaded:
                registers.write(name, None, active)

        return run

    def _copy(self, index: int) -> Step:
        """LDGSTS: every lane fills its place in shared memory, with zeros where a predicate says not to read.

        With zeros at its end only (.ZFILL), the low bits of an address are the number of bytes to fill.
        """
        instruction = self.code[index]
        width = instruction.width
        places = [word for word in instruction.operands if _ADDRESS.match(word)]
        to, origin = _address_reader(places[0], "shared"), _address_reader(places[1], "global")
        conditions = [predicate_reader(word) for word in instruction.operands if is_predicate(word)]
        stored, loaded = self._total(index, "shared", "copy"), self._total(index, "global", "load")

        def run(registers: Registers, active: Mask | None) -> None:
            reading = np.ones(self.threads, dtype=np.bool_) if active is None else active
            for condition in conditions:
                value = condition(registers, active)
                if value is None:
                    raise CannotEvaluate(f"{instruction.opcode} depends on data")
                reading = reading & value
            vectors = origin(registers, active) // width * width
            # What a copy costs in shared memory depends on where it reads.
            self._count(index, stored, to(registers, active), active, np.where(reading, vectors, INACTIVE))
            if reading.any():
                self._count(index, loaded, vectors, reading, None)

        return run

    def _total(self, index: int, space: Space, kind: Kind) -> AccessTotal:
        total = AccessTotal(space, kind, self.code[index].width)
        self.result.accesses[index, space] = total
        return total

    def _count(
        self,
        index: int,
        total: AccessTotal,
        address: NDArray[np.int64],
        active: Mask | None,
        sources: NDArray[np.int64] | None,
    ) -> None:
        """Counts an execution; `sources` are what a copy reads, INACTIVE for a lane that reads nothing."""
        base = int(address.min() if active is None else address[active].min())
        total.lowest = min(total.lowest, base)
        # Moving all lanes by whole rounds of the banks, or by whole sectors, changes no cost.
        base -= base % (BANKS * WORD) if total.space == "shared" else base % SECTOR
        lanes = address - base
        if active is not None:
            lanes = np.where(active, lanes, INACTIVE)
        if sources is not None:
            reading = sources != INACTIVE
            lowest = int(sources.min(where=reading, initial=np.iinfo(np.int64).max)) // WORD
            sources = np.where(reading, sources // WORD - lowest // BANKS * BANKS, INACTIVE)
        key = (index, total.space, lanes.tobytes(), b"" if sources is None else sources.tobytes())
        found = self.costs.get(key)
        if found is None:
            rows = None if sources is None else sources.reshape(-1, WARP_SIZE)
            found = self.costs[key] = _cost(total, lanes.reshape(-1, WARP_SIZE), rows)
        requests, cost, ideal, dearest, example, read = found
        total.requests += requests
        total.cost += cost
        total.ideal += ideal
        if dearest > total.dearest:
            total.dearest, total.example, total.sources = dearest, example, read


def _failing(reason: str) -> Step:
    def run(registers: Registers, active: Mask | None) -> None:
        raise CannotEvaluate(reason)

    return run


def _cost(total: AccessTotal, lanes: NDArray[np.int64], sources: NDArray[np.int64] | None) -> _Cost:
    """What all warps' executions cost: [warps][32] addresses."""
    active = lanes != INACTIVE
    if total.space == "shared":
        assert total.kind != "add", "shared memory is not added to"
        shown = np.where(active, lanes // WORD, INACTIVE)
        cost, ideal = warps_wavefronts(total.kind, total.width, shown, sources)
    else:
        shown = lanes
        cost, ideal = sectors(total.width, lanes, active)
    warp = int(cost.argmax())
    return (
        int(active.any(axis=1).sum()),
        int(cost.sum()),
        int(ideal.sum()),
        int(cost[warp]),
        tuple(int(lane) for lane in shown[warp]),
        () if sources is None else tuple(int(lane) for lane in sources[warp]),
    )


def _address_reader(text: str, space: Space) -> AddressReader:
    """Byte addresses of an operand such as [R2.X4+UR4+0x100] or desc[UR4][R2.64+0x8]."""
    match = _ADDRESS.match(text)
    assert match is not None
    parts: list[tuple[Reader, int]] = []
    offset = 0
    for part in match["inner"].split("+"):
        if part.startswith(("0x", "-0x")):
            offset += int(part, 0)
        elif scaled := _SCALED.match(part):
            parts.append((reader(scaled["register"]), int(scaled["scale"])))
        elif part:
            # Global addresses have 64 bits, of a uniform register too, but for offsets marked as U32.
            name, _, extension = part.partition(".")
            parts.append((reader(name), 1))
            if space == "global" and extension != "U32":
                parts.append((reader(name, 1), 1 << 32))

    def read(registers: Registers, active: Mask | None) -> NDArray[np.int64]:
        total = np.full(registers.threads, offset, dtype=np.int64)
        for value_of, scale in parts:
            value = value_of(registers, active)
            if value is None:
                raise CannotEvaluate(f"address {text} depends on data")
            total = total + value.astype(np.int64) * scale
        return total & 0xFFFFFFFF if space == "shared" else total

    return read
