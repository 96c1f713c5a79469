"""Kernel -> CudaSource: readable CUDA C++, its header and a stand-alone program."""

from __future__ import annotations

from gemmdsl.cuda_source import CudaSource
from gemmdsl.emit.environment import render
from gemmdsl.emit.launch import launch_plan
from gemmdsl.emit.origins import origins, shared_stages
from gemmdsl.emit.view import kernel_view
from gemmdsl.ir import Kernel

__all__ = ["emit"]


def emit(kernel: Kernel, proofs: tuple[str, ...]) -> CudaSource:
    """The CUDA text of a finished kernel; `proofs` are the sentences of its header comment.

    The same kernel gives the same bytes on every machine.
    """
    plan = launch_plan(kernel)
    view = kernel_view(kernel, plan, proofs)
    return CudaSource(
        problem=kernel.spec.problem,
        target=kernel.spec.target.name,
        text=render("kernel.cu.j2", view=view, launch=view.launch),
        header=render("header.h.j2", launch=view.launch),
        main=render("main.cu.j2", launch=view.launch),
        plan=plan,
        shared=shared_stages(kernel),
        origins=origins(kernel, plan),
    )
