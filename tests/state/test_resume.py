"""Programs go on bit for bit from what was saved of them on their way.

Each format with each family: trained on its way, not trained yet, and on two replicas.
"""

import functools

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, KERASES, needs_keras3
from tests.state import formats, programs
from tests.state.programs import END, SAVED_AT, Program, assert_equal, state

pytestmark = [pytest.mark.usefixtures("installed"), programs.needs_saving]

_CORE = [".keras", ".h5", "checkpoint, then built", "built, then .weights.h5"]
_CORE.append("deepcopy of the model")

# The inner optimizer, the constructor and the loop; the first with the most slots.
_EAGERLY = ("amsgrad", "stable", "eager")
_OTHERS = [
    ("amsgrad", "stable", "function"),
    ("momentum", "experimental", "fit"),
    ("momentum", "fixed", "function"),
]


def _cases():
    """Yield when a program is saved, (format, family, arguments of it), and the marks."""
    for name in formats.FORMATS:
        families = [family for family in FAMILIES if formats.exists(name, family)]
        for family in families:
            core = [pytest.mark.core] * (name in _CORE)
            yield "", (name, family, *_EAGERLY), core
            for kind in _OTHERS:
                yield "", (name, family, *kind), [pytest.mark.slow]
            # The weights of an optimizer without slots do not go to one with slots.
            if name != "get_weights":
                yield "untrained", (name, family, *_EAGERLY), []
            loop = "fit" if family == "keras3" else "function"
            # In the quick run each format with the first family that has it.
            slow = [pytest.mark.slow] * (family != families[0])
            yield "replicas", (name, family, "amsgrad", "stable", loop), slow
    for inner in programs.INNER:
        for family in FAMILIES:
            if inner != "amsgrad" and programs.exists(family, inner):
                yield "", (".keras", family, inner, "stable", "eager"), []


CASES = sorted(
    _cases(), key=lambda each: (each[0], each[1][1:])
)  # of one program together


@pytest.fixture(scope="module")
def saved(installed, mirrored2, tmp_path_factory):
    """What `formats.run` returns for a program and its cases; the last one is kept."""

    @functools.lru_cache(maxsize=1)
    def run(when, *arguments):
        program = Program(*arguments, mirrored2 if when == "replicas" else None)
        of_program = [c for w, c, _ in CASES if (w, c[1:]) == (when, arguments)]
        names = [case[0] for case in of_program]
        folder = tmp_path_factory.mktemp("saved")
        return program, *formats.run(program, names, folder, _saved_at(when))

    return run


def _saved_at(when):
    return 0 if when == "untrained" else SAVED_AT


@pytest.mark.parametrize(
    "when, case",
    [
        pytest.param(when, case, id=", ".join(filter(None, [when, *case])), marks=marks)
        for when, case, marks in CASES
    ],
)
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
