"""The report as JSON.  `schema` names its form; a number goes up when a field changes its meaning or goes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gemmdsl.analysis.access import KINDS, Access, Count, Space, summed
from gemmdsl.checker import Program
from gemmdsl.explain.advice import as_diff
from gemmdsl.explain.model import Model
from gemmdsl.version import __version__

SCHEMA = "gemmdsl.explain/1"


def document(report: Model, program: Program) -> str:
    """JSON text, keys in a fixed order; times in seconds, sizes in bytes, shares in [0, 1]."""
    return json.dumps(_report(report, program), indent=2) + "\n"


def _report(report: Model, program: Program) -> dict[str, Any]:
    machine, roof = report.machine, report.roofline
    return {
        "schema": SCHEMA,
        "version": __version__,
        "file": report.spec.file,
        "schedule": report.spec.schedule.name,
        "problem": report.spec.problem.name,
        "target": report.spec.target.name,
        "shape": {
            "m": report.shape.m,
            "n": report.shape.n,
            "k": report.shape.k,
            "lda": report.shape.lda,
            "ldb": report.shape.ldb,
            "ldc": report.shape.ldc,
        },
        "path": report.path.name,
        "launch": {
            "blocks": roof.waves.blocks,
            "threads": report.source.plan.threads,
            "shared_bytes": report.kernel.shared_bytes,
        },
        "as_written": _view(report.accesses),
        "other_kernels": [
            {
                "name": sweep.name,
                "when": "before" if sweep.before else "after",
                "blocks": sweep.blocks,
                "threads": sweep.threads,
                "as_written": _view(sweep.accesses),
            }
            for sweep in report.sweeps
        ],
        "as_compiled": (
            {
                "entry": machine.entry,
                "compiler": machine.compiler,
                **_view(machine.accesses),
                "instructions": {
                    "issued": machine.instructions,
                    "ffma_share": machine.ffma_share,
                    "mix": dict(machine.mix),
                    "main_loop": dict(machine.loop_mix),
                    "main_loop_ffma_share": machine.loop_ffma_share,
                    "by_line": {str(line): count for line, count in sorted(machine.issued.items())},
                },
                "registers": machine.usage.registers,
                "stack": machine.usage.stack,
                "spill_stores": machine.usage.spill_stores,
                "spill_loads": machine.usage.spill_loads,
                "barriers": machine.usage.barriers,
            }
            if machine is not None
            else None
        ),
        "not_compiled_because": report.no_machine or None,
        "estimated_registers": report.estimated,
        "occupancy": [
            {
                "target": occupancy.target,
                "blocks_per_sm": occupancy.blocks,
                "warps_per_sm": occupancy.warps,
                "max_warps_per_sm": occupancy.max_warps,
                "share": occupancy.share,
                "limits": dict(occupancy.limits),
                "limiters": list(occupancy.limiters),
            }
            for occupancy in report.occupancies
        ],
        "intensity": [
            {
                "tier": tier.tier,
                "floats_per_fma": tier.floats_per_fma,
                "flop_per_byte": tier.flop_per_byte,
            }
            for tier in roof.intensities
        ],
        "roofline": {
            "gpu": roof.gpu,
            "peak_tflops": roof.peak_tflops,
            "ceilings": dict(roof.ceilings),
            "binding": roof.binding,
            "waves": roof.waves.waves,
            "lost_to_last_wave": roof.waves.lost,
            "most_blocks_of_an_sm": roof.waves.most,
            "first_wave": {
                "rows_of_tiles": roof.waves.rows,
                "columns_of_tiles": roof.waves.cols,
                "parts_of_k": roof.waves.parts,
            },
            "fastest": roof.fastest,
            "slowest": roof.slowest,
        },
        "findings": [
            {
                "code": finding.code,
                "weight": finding.weight,
                "line": finding.line or None,
                "message": finding.message,
                "advice": finding.advice or None,
            }
            for finding in report.findings
        ],
        "suggestions": (
            [
                {
                    "name": suggestion.name,
                    "wavefronts_per_tile": suggestion.cost.wavefronts,
                    "conflicts_per_tile": suggestion.cost.conflicts,
                    "sectors_per_tile": suggestion.cost.sectors,
                    "shared_bytes": suggestion.shared_bytes,
                    "diff": as_diff(program, suggestion),
                }
                for suggestion in report.suggested
            ]
            if report.suggested is not None
            else None
        ),
    }


def _view(accesses: Sequence[Access]) -> dict[str, Any]:
    """Accesses of one view, and their sums by memory and direction."""
    spaces: tuple[Space, ...] = ("shared", "global")
    return {
        "accesses": [
            {
                "memory": access.space,
                "kind": access.kind,
                "operand": access.operand,
                "asynchronous": access.asynchronous,
                "bytes": access.width,
                "function": access.function or None,
                "line": access.line or None,
                **_count(access.total),
                "per_tile": _count(access.per_tile) if access.per_tile is not None else None,
                "example": list(access.example),
                "sources": list(access.sources) or None,
            }
            for access in accesses
        ],
        "totals": {
            f"{space}_{kind}s": _count(summed(accesses, space, kind, None))
            for space in spaces
            for kind in KINDS[space]
        },
    }


def _count(count: Count) -> dict[str, int]:
    return {"requests": count.requests, "cost": count.cost, "ideal": count.ideal, "excess": count.excess}
