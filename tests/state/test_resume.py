"""The matrix: formats × families × inner optimizers × constructors × loops."""

import functools
import itertools

import pytest
import tensorflow as tf

import tf_lso
from tests import pairs
from tests.families import FAMILIES, OLD_KERAS3, needs_keras3
from tests.state import formats, programs
from tests.state.programs import END, SAVED_AT, Program, assert_equal, state

pytestmark = [
    pytest.mark.usefixtures("installed"),
    pytest.mark.skipif(
        OLD_KERAS3,
        reason="Keras 3.0 saves neither checkpoints nor .h5 files nor copies of models",
    ),
]

_ALL = [
    case
    for case in itertools.product(
        formats.FORMATS, FAMILIES, programs.INNER, programs.APIS, programs.LOOPS
    )
    if formats.exists(case[0], case[1]) and programs.exists(case[1], case[2])
]
# All formats with the most slots, and each inner optimizer in one.
_QUICK = [
    case
    for case in _ALL
    if case[3:] == ("stable", "eager") and (case[2] == "amsgrad" or case[0] == ".keras")
]


def _pairs(case):
    """The pairs of values; a family counts anew where it is traced."""
    name, family, inner, api, loop = case
    return pairs.pairs((name, (family, loop != "eager"), inner, api, loop))


# Those of one program stand together.
_SLOW = sorted(
    pairs.pairwise(_ALL, set().union(*map(_pairs, _QUICK)), _pairs),
    key=lambda case: case[1:],
)
_QUICK.sort(key=lambda case: case[1:])


@pytest.fixture(scope="module")
def saved(installed, tmp_path_factory):
    """What `formats.run` returns for a program and its cases; the last one is kept."""

    @functools.lru_cache(maxsize=1)
    def run(*arguments):
        program = Program(*arguments)
        names = [case[0] for case in (*_QUICK, *_SLOW) if case[1:] == arguments]
        folder = tmp_path_factory.mktemp("saved")
        return program, *formats.run(program, names, folder)

    return run


def check(saved, name, *arguments):
    program, restored, end = saved(*arguments)
    other = formats.restore(program, restored[name])
    assert isinstance(other[1], tf_lso.LossScaleOptimizer)
    program.train(*other, SAVED_AT, END)
    assert_equal(end, state(*other))
    if "checkpoint" in name:
        program.status.assert_consumed()


_CORE = (
    "checkpoint, then built",
    ".keras",
    ".h5",
    "built, then .weights.h5",
    "deepcopy of the model",
)


def _marks(case):
    name, _, inner, *_ = case
    return [pytest.mark.core] * (name in _CORE and inner == "amsgrad")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=", ".join(case), marks=_marks(case)) for case in _QUICK],
)
def test_goes_on_bit_for_bit(case, saved):
    check(saved, *case)


_NAMES = [name for name in formats.FORMATS if formats.exists(name, "new")]


@pytest.mark.parametrize("name", _NAMES)
def test_all_variables_of_the_newer_nadam_are_restored(name, tmp_path):
    program = Program("new", "nadam")
    made = program.make(seed=1)
    program.train(*made, 0, SAVED_AT)
    assert made[1].inner_optimizer._u_product.numpy() != 1.0
    model, optimizer = formats.FORMATS[name](program, tmp_path, *made)()
    optimizer.build(model.trainable_variables)
    assert_equal(state(*made), state(model, optimizer))


def test_the_cases_meet_all_pairs():
    met = set().union(*map(_pairs, [*_QUICK, *_SLOW]))
    assert met == set().union(*map(_pairs, _ALL))
    assert {(case[0], case[1]) for case in _SLOW if case[4] != "eager"} == {
        (case[0], case[1]) for case in _ALL
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", _SLOW, ids=", ".join)
def test_goes_on_bit_for_bit_in_every_format_and_loop(case, saved):
    check(saved, *case)


class _Stop(Exception):
    pass


def test_backup_and_restore(family, tmp_path):
    inner = "nadam" if programs.exists(family, "nadam") else "amsgrad"
    module = programs.MODULES[family]
    program = Program(family, inner, "stable", "fit")

    class Stop(module.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                raise _Stop

    def fit(seed, *callbacks):
        # The one that is restored is built by its first step.
        made = program.make(seed=seed, built=seed == 1)
        made[0].fit(
            program.data(),
            shuffle=False,
            epochs=3,
            verbose=0,
            callbacks=list(callbacks),
        )
        return state(*made)

    def backup():
        return module.callbacks.BackupAndRestore(str(tmp_path))

    with pytest.raises(_Stop):
        fit(1, backup(), Stop())
    assert_equal(fit(1), fit(9, backup()))


@pytest.mark.parametrize("name", ["m.keras", "m.weights.h5"])
def test_model_checkpoint(family, name, tmp_path):
    module = programs.MODULES[family]
    program = Program(family, loop="fit")
    model, optimizer = program.make(seed=1, built=True)
    only = "weights" in name
    path = str(tmp_path / name)
    saving = module.callbacks.ModelCheckpoint(path, save_weights_only=only)
    model.fit(program.data(), shuffle=False, verbose=0, callbacks=[saving])
    if only:
        other = program.make()
        other[0].load_weights(path)
    else:
        loaded = module.models.load_model(path)
        other = loaded, loaded.optimizer
    for made in ((model, optimizer), other):
        program.train(*made, 0, END)
    assert_equal(state(model, optimizer), state(*other))


@needs_keras3
def test_a_checkpoint_without_the_scale_does_not_go_on(tmp_path):
    """The comparison can fail."""
    program = Program("keras3")
    made = program.make(seed=1)
    program.train(*made, 0, SAVED_AT)

    def of(model, optimizer):
        return tf.train.Checkpoint(model=model, optimizer=optimizer.inner_optimizer)

    other = program.make(built=True, compiled=False)
    saving = tf.train.Checkpoint(model=made[0], optimizer=made[1].inner_optimizer)
    of(*other).restore(saving.save(tmp_path / "c"))
    for each in (made, other):
        program.train(*each, SAVED_AT, END)
    with pytest.raises(AssertionError, match="scale"):
        assert_equal(state(*made), state(*other))
