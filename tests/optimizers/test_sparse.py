"""Sparse gradients: of few rows, compiled by XLA; of a table too large to be copied.

The last batch of an epoch may have a single row.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, bare_step, legacy_step

OPTIMIZERS = ["SGD", "Adam", "RMSprop", "Adagrad", "Adadelta"]
BATCHES = [pytest.param([3, 3], marks=pytest.mark.slow), [3, 5, 3, 3]]


def _trained(
    family, wrap, batches, compiled, names=("RMSprop",), loop=False, known=None
):
    """Two embeddings of each optimizer after a step with the rows of each batch."""
    inners = [getattr(FAMILIES[family], name)(0.5) for name in names]
    optimizers = [tf_lso.LossScaleOptimizer(i) if wrap else i for i in inners]
    start = np.arange(16, dtype="float32").reshape(8, 2) + 1.0
    tables = [[tf.Variable(start, name=name) for name in "ab"] for _ in optimizers]
    for optimizer, own in zip(optimizers, tables):
        build = getattr(optimizer, "build", None) or optimizer._create_all_weights
        build(own)

    def step(rows):
        for optimizer, own in zip(optimizers, tables):

            def loss(own=own):
                one, other = (tf.gather(table, rows) for table in own)
                return tf.reduce_sum(one**2) + 0.5 * tf.reduce_sum(other)

            (legacy_step if wrap else bare_step)(optimizer, loss, own)

    def steps(rows):
        for _ in tf.range(2):
            step(rows)

    function = steps if loop else step
    if compiled:
        spec = tf.TensorSpec([known], tf.int32)
        function = tf.function(function, [spec], jit_compile=True)
    for rows in batches:
        function(tf.constant(rows, tf.int32))
    return [np.stack([table.numpy() for table in own]) for own in tables]


@pytest.mark.slow
def test_batches_of_any_number_of_rows(family):
    batches = [[3, 5], [5], [2]]
    # Compiled, these two fail bare, too: their operations have no kernel.
    without = {"Adagrad", "Adadelta"} if family == "legacy" else set()
    names = [name for name in OPTIMIZERS if name not in without]
    ours = _trained(family, True, batches, compiled=True, names=names)
    bare = _trained(family, False, batches, compiled=False, names=names)
    for name, one, other in zip(names, ours, bare):
        np.testing.assert_allclose(one, other, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("loop", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_batch_that_is_known_to_have_one_row(family, loop):
    ours, bare = (
        _trained(family, ours, [[3]], compiled=ours, loop=loop, known=1)
        for ours in (True, False)
    )
    np.testing.assert_allclose(ours, bare, rtol=1e-5)


@pytest.mark.parametrize("batch", BATCHES)
def test_rows_of_one_index(family, batch):
    """As without XLA: rows of one index are added up before they are squared."""
    compiled, plain = (
        _trained(family, True, [batch], compiled=compiled) for compiled in (True, False)
    )
    np.testing.assert_allclose(compiled, plain, rtol=1e-5)


def test_a_step_makes_no_dense_temporary(family):
    """No more operations have the whole table as output than with the bare optimizer.

    That of Keras 2 multiplies the table by its weight decay of 0.
    """
    rows = 100_003

    def dense(function):
        graphs = [function.get_concrete_function(tf.TensorSpec((64,), tf.int32)).graph]
        found = []
        for graph in graphs:  # and those of its branches, which are added
            for operation in graph.get_operations():
                shapes = [output.shape for output in operation.outputs]
                dense = [s for s in shapes if s.rank == 2 and s[0] == rows]
                found += [operation.type] * len(dense)
                for name in ("then_branch", "else_branch"):
                    if name in operation.node_def.attr:
                        branch = operation.node_def.attr[name].func.name
                        graphs.append(graph._get_function(branch).graph)
        return sorted(found)

    found = []
    for take, optimizer in (
        (bare_step, FAMILIES[family].SGD(0.1)),
        (legacy_step, tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(0.1))),
    ):
        table = tf.Variable(tf.zeros((rows, 8)))

        @tf.function
        def step(ids, take=take, optimizer=optimizer, table=table):
            take(optimizer, lambda: tf.reduce_sum(tf.gather(table, ids)), [table])

        found.append(dense(step))
        step(tf.constant([1] * 64))
        assert float(table[1, 0]) == pytest.approx(-6.4)
    assert found[0] == found[1]
