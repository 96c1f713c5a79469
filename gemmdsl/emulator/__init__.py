"""Runs emitted CUDA text on a CPU: compiled unchanged by the machine's C++ compiler, a fiber per thread."""
