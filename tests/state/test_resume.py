"""Programs go on bit for bit from what was saved of them on their way.

The matrix: formats × families × inner optimizers × constructors × loops. And, each format
with each family, of models that were not trained yet, and on two replicas.
"""

import functools
import itertools

import pytest
import tensorflow as tf

import tf_lso
from tests import pairs
from tests.families import FAMILIES, KERASES, needs_keras3
from tests.state import formats, programs
from tests.state.programs import END, SAVED_AT, Program, assert_equal, state

pytestmark = [pytest.mark.usefixtures("installed"), programs.needs_saving]

_ALL = [
    case
    for case in itertools.product(
        formats.FORMATS, FAMILIES, programs.INNER, programs.APIS, programs.LOOPS
    )
    if formats.exists(case[0], case[1]) and programs.exists(case[1], case[2])
]
# All formats with the most slots, and each inner optimizer in one.
_EAGERLY = [case for case in _ALL if case[3:] == ("stable", "eager")]
_QUICK = [case for case in _EAGERLY if case[2] == "amsgrad" or case[0] == ".keras"]


def _pairs(case):
    """The pairs of values; a family counts anew where it is traced."""
    name, family, inner, api, loop = case
    return pairs.pairs((name, (family, loop != "eager"), inner, api, loop))


_SLOW = pairs.pairwise(_ALL, set().union(*map(_pairs, _QUICK)), _pairs)

_UNTRAINED = [
    case
    for case in _EAGERLY
    # The weights of an optimizer without slots do not go to one with slots.
    if case[2] in ("momentum", "amsgrad") and case[0] != "get_weights"
]

# In turns: each format and family once, and both loops with each of them; each format with
# one family in the quick run.
_REPLICAS, _QUICK_REPLICAS = [], []
for number, name in enumerate(formats.FORMATS):
    cases = [
        (name, family, "amsgrad", "stable", ("function", "fit")[(number + turn) % 2])
        for turn, family in enumerate(FAMILIES)
        if formats.exists(name, family)
    ]
    _REPLICAS += cases
    _QUICK_REPLICAS.append(cases[(number + 1) % len(cases)])

_CORE = [".keras", ".h5", "checkpoint, then built", "built, then .weights.h5"]
_CORE.append("deepcopy of the model")


def _slow_beyond(quick):
    return lambda case: () if case in quick else pytest.mark.slow


# When and where -> the cases, and their marks.
_TABLE = {
    "": (_QUICK, lambda c: [pytest.mark.core] * (c[0] in _CORE and c[2] == "amsgrad")),
    "slow": (_SLOW, _slow_beyond([])),
    "untrained": (_UNTRAINED, _slow_beyond(pairs.pairwise(_UNTRAINED))),
    "replicas": (_REPLICAS, _slow_beyond(_QUICK_REPLICAS)),
}


def _parameters():
    for when, (cases, marks) in _TABLE.items():
        for case in sorted(cases, key=lambda case: case[1:]):  # of one program together
            identity = ", ".join([when, *case] if when else case)
            yield pytest.param(when, case, id=identity, marks=marks(case))


@pytest.fixture(scope="module")
def saved(installed, mirrored2, tmp_path_factory):
    """What `formats.run` returns for a program and its cases; the last one is kept."""

    @functools.lru_cache(maxsize=1)
    def run(when, *arguments):
        program = Program(*arguments, mirrored2 if when == "replicas" else None)
        names = [case[0] for case in _TABLE[when][0] if case[1:] == arguments]
        folder = tmp_path_factory.mktemp("saved")
        return program, *formats.run(program, names, folder, _saved_at(when))

    return run


def _saved_at(when):
    return 0 if when == "untrained" else SAVED_AT


@pytest.mark.parametrize(("when", "case"), list(_parameters()))
def test_goes_on_bit_for_bit(when, case, saved):
    name, *arguments = case
    program, restored, end = saved(when, *arguments)
    other = formats.go_on(program, restored[name], _saved_at(when))
    assert isinstance(other[1], tf_lso.LossScaleOptimizer)
    assert_equal(end, state(*other))
    if "checkpoint" in name and when != "untrained":  # which has no slots to consume
        program.status.assert_consumed()


_NAMES = [name for name in formats.FORMATS if formats.exists(name, "new")]


@pytest.mark.parametrize("name", _NAMES)
def test_all_variables_of_the_newer_nadam_are_restored(name, tmp_path):
    program = Program("new", "nadam")
    made = program.make(seed=1)
    program.train(*made, 0, SAVED_AT)
    assert made[1].inner_optimizer._u_product.numpy() != 1.0
    model, optimizer = formats.save(name, program, tmp_path, *made)()
    optimizer.build(model.trainable_variables)
    assert_equal(state(*made), state(model, optimizer))


def test_the_cases_meet_all_pairs():
    met = set().union(*map(_pairs, [*_QUICK, *_SLOW]))
    assert met == set().union(*map(_pairs, _ALL))
    assert {(case[0], case[1]) for case in _SLOW if case[4] != "eager"} == {
        (case[0], case[1]) for case in _ALL
    }


def test_backup_and_restore(family, tmp_path):
    inner = "nadam" if programs.exists(family, "nadam") else "amsgrad"
    callbacks = KERASES[family].callbacks
    program = Program(family, inner, "stable", "fit")

    def fit(seed, *called):
        # The one that is restored is built by its first step.
        made = program.make(seed=seed, built=seed == 1)
        how = {"shuffle": False, "verbose": 0, "callbacks": list(called)}
        made[0].fit(program.data(), epochs=3, **how)
        return state(*made)

    def stop(epoch, logs):
        if epoch == 1:
            raise InterruptedError

    def backup():
        return callbacks.BackupAndRestore(str(tmp_path))

    with pytest.raises(InterruptedError):
        fit(1, backup(), callbacks.LambdaCallback(on_epoch_begin=stop))
    assert_equal(fit(1), fit(9, backup()))


@pytest.mark.parametrize("name", ["m.keras", "m.weights.h5"])
def test_model_checkpoint(family, name, tmp_path):
    keras, path, only = KERASES[family], str(tmp_path / name), "weights" in name
    program = Program(family)
    model, optimizer = program.make(seed=1, built=True)
    saving = keras.callbacks.ModelCheckpoint(path, save_weights_only=only)
    model.fit(program.data(), shuffle=False, verbose=0, callbacks=[saving])
    if only:
        other, _ = program.make()
        other.load_weights(path)
    else:
        other = keras.models.load_model(path)
    for each in (model, other):
        program.train(each, each.optimizer, 0, END)
    assert_equal(state(model, optimizer), state(other, other.optimizer))


@needs_keras3
def test_a_checkpoint_without_the_scale_does_not_go_on(tmp_path):
    """The comparison can fail."""
    program = Program("keras3")
    made = program.make(seed=1)
    program.train(*made, 0, SAVED_AT)

    def plain(model, optimizer):
        return tf.train.Checkpoint(model=model, optimizer=optimizer.inner_optimizer)

    other = program.make(built=True, compiled=False)
    plain(*other).restore(plain(*made).save(tmp_path / "c"))
    for each in (made, other):
        program.train(*each, SAVED_AT, END)
    with pytest.raises(AssertionError, match="scale"):
        assert_equal(state(*made), state(*other))
