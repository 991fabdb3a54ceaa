"""Random and long programs are right; those that mix two protocols at least refused."""

import collections
import itertools

import pytest
import tensorflow as tf

from tests.families import FAMILIES
from tests.scaling.mixed_programs import program_of
from tests.scaling.programs import Bench


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    program_of(seed).outcome()


@pytest.mark.parametrize("seed", range(9))
def test_random_programs_of_eager_replicas(seed, mirrored2):
    program_of(seed, mirrored2).outcome()


@pytest.mark.slow
def test_many_random_programs(mirrored2):
    counts = collections.Counter()
    for strategy, seeds in ((None, range(1000, 1150)), (mirrored2, range(1000, 1036))):
        for program in (program_of(seed, strategy) for seed in seeds):
            counts[strategy, program.kind, program.outcome()] += 1
    assert counts[None, "both", "right"] > 0.2 * 50


def test_a_program_is_the_same_each_time():
    first, second = program_of(1), program_of(1)
    for program in (first, second):
        program.outcome()
    assert first.log == second.log and len(first.log) > 1


@pytest.fixture
def graphs_as_they_are():
    """TensorFlow's rewriting of short graphs takes a quarter of the time of these tests."""
    set_options = tf.config.optimizer.set_experimental_options
    set_options({"disable_meta_optimizer": True})
    yield
    set_options({"disable_meta_optimizer": False})


LOOKS_AND_STEPS = ("unscaled look", "unscaled@f look", "legacy", "legacy@g")


def check_in_any_order(length, is_set):
    """Families take turns. `is_set`: whether the program sets the scale, or its steps do."""
    programs = itertools.product(LOOKS_AND_STEPS, repeat=length)
    for parts, family in zip(programs, itertools.cycle(FAMILIES)):
        bench = Bench(family, growth=1)
        for part, scale in zip(parts, (8, 64, 2, 32)):
            bench.run(f"scale={scale} {part}" if is_set else part)
        assert bench.steps == sum(part.startswith("legacy") for part in parts), parts


@pytest.mark.usefixtures("graphs_as_they_are")
def test_looks_and_whole_steps_in_any_order():
    check_in_any_order(3, is_set=True)


@pytest.mark.slow
@pytest.mark.parametrize("is_set", [False, True], ids=["the steps move it", "set"])
def test_four_looks_and_whole_steps_in_any_order(is_set):
    check_in_any_order(4, is_set)


ON_REPLICAS = [
    "({0} {0} mean apply_gradients)@replicas",
    "{0}@replicas {0}@replicas mean@replicas apply_gradients@replicas",
    "{0}@replicas apply_gradients@replicas",
    "{0}@replicas copy@replicas apply_gradients@replicas",
]


@pytest.mark.parametrize("kind", ["scale_loss", "unscaled"])
@pytest.mark.parametrize("program", ON_REPLICAS)
def test_eager_replicas_take_right_steps_as_the_scale_grows(
    program, family, kind, mirrored2
):
    bench = Bench(family, growth=2, strategy=mirrored2)
    for times in range(1, 4):
        bench.run(program.format(kind))
        assert bench.steps == times
