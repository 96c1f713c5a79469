"""What runtimes need for their messages: the arrays in shared memory, and what each function follows from."""

from __future__ import annotations

from gemmdsl.cuda_source import LaunchPlan, Origin, SharedArray, SharedStages
from gemmdsl.ir import Kernel


def shared_stages(kernel: Kernel) -> SharedStages | None:
    """The stages of the kernel under the names that templates/kernel.cu.j2 gives them; None without any."""
    if kernel.staging is None:
        return None
    slots = kernel.staging[0].tile.stages
    arrays = []
    for staging in kernel.staging:
        lower = staging.tile.operand.name.lower()
        functions = (f"copy_{lower}", f"copy_{lower}_async", f"store_{lower}", f"read_{lower}")
        arrays.append(SharedArray(staging.tile.operand.name, staging.tile.cols.name, functions))
    return SharedStages("Stage", "stages" if slots else "stage", slots.name if slots else "", tuple(arrays))


def origins(kernel: Kernel, plan: LaunchPlan) -> tuple[Origin, ...]:
    """For each function of the text, the words of a schedule that shape it, the most telling first."""
    block = ("buffers", "block", "raster", "unroll")
    found = [
        *(Origin(sweep.name, ("split_k",)) for sweep in (*plan.before, *plan.after)),
        *(Origin(entry.name, block) for entry in plan.entries),
        Origin("compute_block", block),
        Origin("store_c", ("C.vector", "thread", "block")),
        Origin("add_c", ("split_k", "C.vector", "thread", "block")),
        Origin("store_part", ("split_k", "C.vector", "thread", "block")),
        Origin("multiply_global", ("thread", "block")),
        Origin("multiply_tile", ("thread", "block", "unroll")),
    ]
    for staging in kernel.staging or ():
        name = staging.tile.operand.name
        lower = name.lower()
        place = (f"{name}.swizzle", f"{name}.transpose", f"{name}.pad", f"{name}.vector", "block")
        found += [
            Origin(f"load_{lower}", (f"{name}.load", f"{name}.vector", "block")),
            Origin(f"store_{lower}", (f"{name}.store", *place)),
            Origin(f"copy_{lower}", (f"{name}.load", *place)),
            Origin(f"copy_{lower}_async", (f"{name}.load", *place)),
            Origin(f"read_{lower}", (f"{name}.read", *place)),
        ]
    return tuple(found)
