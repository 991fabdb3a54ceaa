"""Programs that are restored continue bit for bit as the programs that were saved.

Each program is saved in each format. It is trained for some steps before, or for no step, or
it trains on two replicas.
"""

import functools

import pytest

import tf_lso
from tests.families import FAMILIES, KERASES
from tests.state import formats, programs
from tests.state.programs import SAVED_AT, Program, assert_equal, state

pytestmark = [pytest.mark.usefixtures("installed"), programs.needs_saving]

_CORE = [
    ".keras",
    ".h5",
    "checkpoint, then built",
    "built, then .weights.h5",
    "deepcopy of the model",
]

# The arguments of `Program` after the family: the inner optimizer, the constructor and the
# loop. The first program has the optimizer with the most slots.
_EAGER = ("amsgrad", "stable", "eager")
_OTHERS = [
    ("momentum", "experimental", "fit"),
    ("momentum", "fixed", "function"),
]


def _cases():
    """Yield (when, format, arguments of `Program`, marks).

    `when` says when the program is saved: "trained", "untrained", or "replicas" for a trained
    program on two replicas.
    """
    for name in formats.FORMATS:
        families = [family for family in FAMILIES if formats.exists(name, family)]
        for family in families:
            core = [pytest.mark.core] if name in _CORE else []
            yield "trained", name, (family, *_EAGER), core
            for other in _OTHERS:
                yield "trained", name, (family, *other), [pytest.mark.slow]
            # An optimizer that has no slots yet cannot give its weights to one with slots.
            if name != "get_weights":
                marks = [] if name in _CORE else [pytest.mark.slow]
                yield "untrained", name, (family, *_EAGER), marks
            loop = "fit" if family == "keras3" else "function"
            marks = [] if name == ".keras" else [pytest.mark.slow]
            yield "replicas", name, (family, "amsgrad", "stable", loop), marks
    for inner in programs.INNER:
        for family in FAMILIES:
            if inner != "amsgrad" and programs.exists(family, inner):
                yield "trained", ".keras", (family, inner, "stable", "eager"), []


# The cases of one program follow each other, because the fixture `saved` runs each program once
# for all its formats.
CASES = sorted(_cases(), key=lambda case: (case[0], case[2]))


def _saved_at(when):
    return 0 if when == "untrained" else SAVED_AT


@pytest.fixture(scope="module")
def saved(installed, mirrored2, tmp_path_factory):
    """A function that runs a program, saves it in all its formats, and returns all three.

    It returns the program and what `formats.run` returns. It keeps only the last results.
    """

    @functools.lru_cache(maxsize=1)
    def run(when, arguments):
        strategy = mirrored2 if when == "replicas" else None
        program = Program(*arguments, strategy)
        names = [case[1] for case in CASES if (case[0], case[2]) == (when, arguments)]
        folder = tmp_path_factory.mktemp("saved")
        restore_functions, end = formats.run(program, names, folder, _saved_at(when))
        return program, restore_functions, end

    return run


@pytest.mark.parametrize(
    "when, name, arguments",
    [
        pytest.param(
            when, name, arguments, id=", ".join([when, name, *arguments]), marks=marks
        )
        for when, name, arguments, marks in CASES
    ],
)
def test_a_restored_program_continues_bit_for_bit(when, name, arguments, saved):
    program, restore_functions, end = saved(when, arguments)
    model, optimizer = formats.restore_and_train(
        program, restore_functions[name], _saved_at(when)
    )
    assert isinstance(optimizer, tf_lso.LossScaleOptimizer)
    assert_equal(end, state(model, optimizer))
    # The checkpoint of an untrained program has no slots that could be consumed.
    if "checkpoint" in name and when != "untrained":
        program.checkpoint_status.assert_consumed()


@pytest.mark.parametrize(
    "name", ["checkpoint, then built", ".keras", ".h5", "pickle of the optimizer"]
)
def test_all_variables_of_the_newer_nadam_are_restored(name, tmp_path):
    program = Program("new", "nadam")
    model, optimizer = program.make(seed=1)
    program.train(model, optimizer, 0, SAVED_AT)
    assert optimizer.inner_optimizer._u_product.numpy() != 1.0
    restore = formats.FORMATS[name](program, tmp_path, model, optimizer)
    restored_model, restored_optimizer = restore()
    restored_optimizer.build(restored_model.trainable_variables)
    assert_equal(state(model, optimizer), state(restored_model, restored_optimizer))


def test_backup_and_restore_continues_an_interrupted_fit(family, tmp_path):
    inner = "nadam" if programs.exists(family, "nadam") else "amsgrad"
    keras_callbacks = KERASES[family].callbacks
    program = Program(family, inner, "stable", "fit")

    def state_after_fit(seed, built, *callbacks):
        model, optimizer = program.make(seed=seed, built=built)
        options = {"shuffle": False, "verbose": 0, "callbacks": list(callbacks)}
        model.fit(program.data(), epochs=3, **options)
        return state(model, optimizer)

    def interrupt(epoch, logs):
        if epoch == 1:
            raise InterruptedError

    def backup():
        return keras_callbacks.BackupAndRestore(str(tmp_path))

    interruption = keras_callbacks.LambdaCallback(on_epoch_begin=interrupt)
    with pytest.raises(InterruptedError):
        state_after_fit(1, True, backup(), interruption)
    expected = state_after_fit(1, True)
    # The first step builds the restored optimizer.
    assert_equal(expected, state_after_fit(9, False, backup()))
