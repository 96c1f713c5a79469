"""gemmdsl: from matrix-product schedules to fast, readable, proven CUDA."""
