"""The Level-3 style sweep over kernels that together turn every pass on and off."""

from __future__ import annotations

import pytest

from gemmdsl.passes import PIPELINE, steps
from tests.suites.designs import DESIGNS, all_specs
from tests.suites.level3 import sweep


def test_the_designs_turn_every_pass_on_and_off() -> None:
    applied = [{step.name for step in steps(spec)} for spec in all_specs()]
    for step in PIPELINE:
        taken = [step.__name__ in names for names in applied]
        assert any(taken), f"no design applies {step.__name__}"
        assert step.__name__ == "specialise" or not all(taken), f"every design applies {step.__name__}"


@pytest.mark.parametrize("design", DESIGNS)
def test_sweep(design: str) -> None:
    tally = sweep(design)
    print(f"{design}: {tally}")
    assert tally.counts["cases"] == 4 * 6**3 * 9
    assert not tally.failures, "\n".join(tally.failures[:5])
