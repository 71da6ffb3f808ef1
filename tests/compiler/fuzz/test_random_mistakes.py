"""Random programs full of mistakes: nothing but our errors ever leaves te, lower or build.

``pytest tests/compiler/fuzz/test_random_mistakes.py --draws 10000`` makes more of them.
"""

import random
import warnings

from random_mistakes import Mistakes

STEPS = 10


def test_only_our_errors_come_back(seeds, is_known):
    refused, accepted, some = 0, 0, seeds(500)
    for seed in some:
        program = Mistakes(random.Random(seed))
        for _ in range(STEPS):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    error = program.step()
            except Exception as error:
                lines = "\n".join(program.log)
                if is_known(lines, error):
                    break
                error.add_note(f"seed {seed}, the calls:\n{lines}")
                raise
            refused += error is not None
            accepted += error is None
    if len(some) < 500:
        return
    assert refused > accepted / 4 and accepted > refused / 4, (refused, accepted)
