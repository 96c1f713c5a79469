"""Running compiled kernels on a GPU through pycuda.

    from gemmdsl.runtime import gpu, run

    c = run(gpu(), kernel.cuda, a, b)            # numpy, pycuda, torch, cupy, DLPack

`gpu(index)` is this thread's open device; `Gpu(index)` is one of your own, a context manager.  What cannot be
done is a GpuError or a LaunchError that names the argument.
"""

from gemmdsl.runtime.device import Gpu, Limits, close_all, gpu
from gemmdsl.runtime.errors import GpuError
from gemmdsl.runtime.kernel import Kernel, load
from gemmdsl.runtime.run import Launch, run, run_stored

__all__ = [
    "Gpu",
    "GpuError",
    "Kernel",
    "Launch",
    "Limits",
    "close_all",
    "gpu",
    "load",
    "run",
    "run_stored",
]
