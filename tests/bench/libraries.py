"""torch and cupy as far as they are a way to cuBLAS, played by numpy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.runtime.fake import World
from tests.runtime.fake_memory import strided


def torch(world: World) -> ModuleType:
    module = ModuleType("torch")
    current = [0]

    def tensor(shown: Any, device: str) -> Any:
        assert device == "cuda:0"
        interface = shown.__cuda_array_interface__
        shape = interface["shape"]
        return strided(interface["data"][0], shape, (interface["strides"][0] // 4, 1))

    @contextmanager
    def use(stream: Any) -> Iterator[None]:
        current.append(stream.handle)
        yield
        current.pop()

    def mm(a: Any, b: Any, out: Any) -> None:
        assert out.strides[1] == 4

        def work() -> None:
            world.clock += world.milliseconds("cublas")
            np.copyto(out, a @ b)

        world.do(current[-1], work)

    vars(module).update(
        __version__="2.11.0",
        backends=SimpleNamespace(
            cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True), is_built=lambda: True)
        ),
        cuda=SimpleNamespace(
            ExternalStream=lambda handle, device: SimpleNamespace(handle=handle), stream=use
        ),
        as_tensor=tensor,
        mm=mm,
    )
    return module


def cupy(world: World) -> dict[str, ModuleType]:
    module, inner = ModuleType("cupy"), ModuleType("cupy.cuda")

    # fmt: off
    def sgemm(handle: int, ta: int, tb: int, m: int, n: int, k: int, alpha: int,
              a: int, lda: int, b: int, ldb: int, beta: int, c: int, ldc: int) -> None:
        # fmt: on
        world.clock += world.milliseconds("cublas")
        left = strided(a, (m, k), (lda, 1) if ta else (1, lda))
        right = strided(b, (k, n), (ldb, 1) if tb else (1, ldb))
        strided(c, (m, n), (1, ldc))[...] = left @ right

    modes: list[int] = []
    vars(inner).update(
        cublas=SimpleNamespace(
            create=lambda: 1, setMathMode=lambda handle, mode: modes.append(mode), sgemm=sgemm, modes=modes
        ),
        Device=lambda index: nullcontext(),
        ExternalStream=lambda handle: nullcontext(),
    )
    vars(module).update(__version__="14.2.0", cuda=inner)
    return {"cupy": module, "cupy.cuda": inner}
