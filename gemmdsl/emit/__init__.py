"""Kernel -> CudaSource: readable CUDA C++, its header and a stand-alone program."""

from __future__ import annotations

from gemmdsl.cuda_source import CudaSource
from gemmdsl.emit.environment import render
from gemmdsl.emit.origins import origins, shared_stages
from gemmdsl.emit.view import launch_plan, view
from gemmdsl.ir import Kernel

__all__ = ["emit"]


def emit(kernel: Kernel, proofs: tuple[str, ...]) -> CudaSource:
    """The CUDA text of a finished kernel; `proofs` are the sentences of its header comment.

    The same kernel gives the same bytes on every machine.
    """
    context = view(kernel, proofs)
    return CudaSource(
        problem=kernel.spec.problem,
        target=kernel.spec.target.name,
        text=render("kernel.cu.j2", view=context),
        header=render("header.h.j2", view=context),
        main=render("main.cu.j2", view=context),
        plan=launch_plan(kernel),
        shared=shared_stages(kernel),
        origins=origins(kernel),
    )
