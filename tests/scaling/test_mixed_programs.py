"""Random programs are right, and those that mix two protocols at least refused."""

import pytest

from tests.scaling import mixed_programs

OUTCOMES = {
    "legacy": {"right"},
    "keras3": {"right"},
    "both": {"right", "refused", "warned"},
}
SLOW = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(18, 36)]


@pytest.mark.parametrize("seed", [*range(18), *SLOW])
def test_random_programs(seed):
    family, kind = mixed_programs.turn(seed)
    assert mixed_programs.run(family, seed, kind) in OUTCOMES[kind]


@pytest.mark.parametrize("seed", range(9))
def test_random_programs_of_eager_replicas(seed, mirrored2):
    family, kind = mixed_programs.turn(seed)
    assert mixed_programs.run(family, seed, kind, mirrored2) in OUTCOMES[kind]


@pytest.mark.slow
def test_many_random_programs(mirrored2):
    counts, wrong = mixed_programs.many(range(1000, 1300))
    assert wrong == {}
    assert counts["both", "right"] > 0.3 * 100
    assert mixed_programs.many(range(1000, 1045), mirrored2)[1] == {}


def test_a_program_is_the_same_each_time():
    logs = []
    for _ in range(2):
        program = mixed_programs.Program("legacy", 7, "legacy")
        for _ in range(3):
            program.act()
        logs.append(program.log)
    assert logs[0] == logs[1]
