"""gemmdsl: from matrix-product schedules to fast, readable, proven CUDA."""

__version__ = "0.1.0"
