"""Random and long programs are right; those that mix two protocols at least refused."""

import itertools

import pytest

from tests.families import FAMILIES
from tests.scaling import mixed_programs
from tests.scaling.programs import Bench

OUTCOMES = {
    "legacy": {"right"},
    "keras3": {"right"},
    "both": {"right", "refused", "warned"},
}


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    family, kind = mixed_programs.turn(seed)
    assert mixed_programs.run(family, seed, kind) in OUTCOMES[kind]


@pytest.mark.parametrize("seed", range(9))
def test_random_programs_of_eager_replicas(seed, mirrored2):
    family, kind = mixed_programs.turn(seed)
    assert mixed_programs.run(family, seed, kind, mirrored2) in OUTCOMES[kind]


@pytest.mark.slow
def test_many_random_programs(mirrored2):
    counts, wrong = mixed_programs.many(range(1000, 1150))
    assert wrong == {}
    assert counts["both", "right"] > 0.2 * 50
    assert mixed_programs.many(range(1000, 1036), mirrored2)[1] == {}


def test_a_program_is_the_same_each_time():
    logs = []
    for _ in range(2):
        program = mixed_programs.Program("legacy", 7, "legacy")
        for _ in range(3):
            program.act()
        logs.append(program.log)
    assert logs[0] == logs[1]


LOOKS_AND_STEPS = ("unscaled look", "unscaled@f look", "legacy", "legacy@g")


def check_in_any_order(length, is_set):
    """Families take turns, and so do what moves the scale: the program, and its steps."""
    programs = itertools.product(LOOKS_AND_STEPS, repeat=length)
    for parts, family, sets in zip(programs, itertools.cycle(FAMILIES), is_set):
        bench = Bench(family, growth=1)
        for part, scale in zip(parts, (8, 64, 2, 32)):
            bench.run(f"scale={scale} {part}" if sets else part)
        assert bench.steps == sum(part.startswith("legacy") for part in parts), parts


def test_looks_and_whole_steps_in_any_order():
    check_in_any_order(3, is_set=itertools.repeat(True))


@pytest.mark.slow
def test_four_looks_and_whole_steps_in_any_order():
    # Turns of five, so that each part and family meets both.
    check_in_any_order(4, itertools.cycle([True, False, True, False, False]))


@pytest.mark.parametrize("kind", ["scale_loss", "unscaled"])
class TestEagerReplicas:
    @pytest.mark.parametrize(
        "program",
        [
            "({0} {0} mean apply_gradients)@replicas",
            "{0}@replicas {0}@replicas mean@replicas apply_gradients@replicas",
            pytest.param(
                "{0}@replicas apply_gradients@replicas", marks=pytest.mark.slow
            ),
            pytest.param(
                "{0}@replicas copy@replicas apply_gradients@replicas",
                marks=pytest.mark.slow,
            ),
        ],
    )
    @pytest.mark.parametrize("family", FAMILIES)
    def test_take_right_steps_as_the_scale_grows(
        self, family, kind, program, mirrored2
    ):
        bench = Bench(family, growth=2, strategy=mirrored2)
        for times in range(1, 4):
            bench.run(program.format(kind))
            assert bench.steps == times
