"""Sparse gradients of embeddings: compiled by XLA, and of a table too large to be copied."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, bare_step, legacy_step, needs_keras3, wrapped


@pytest.mark.parametrize(
    "rows, size, is_loop",
    # The last batch of an epoch may have a single row, whose size XLA knows.
    [([3, 5, 3, 3], None, False), ([3], 1, True)],
)
def test_a_compiled_step_sums_repeated_rows_before_the_optimizer_squares_them(
    family, rows, size, is_loop
):
    def trained(is_compiled):
        """Take compiled steps with slices, or eager steps with dense gradients."""
        optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].RMSprop(0.5))
        start = np.arange(16, dtype="float32").reshape(8, 2) + 1.0
        first, second = tf.Variable(start, name="a"), tf.Variable(start, name="b")
        optimizer.build([first, second])

        def rows_of(table, rows):
            return (
                tf.gather(table, rows) if is_compiled else tf.one_hot(rows, 8) @ table
            )

        def loss(rows):
            squares = tf.reduce_sum(rows_of(first, rows) ** 2)
            return squares + 0.5 * tf.reduce_sum(rows_of(second, rows))

        def step(rows):
            for _ in tf.range(2) if is_loop else [0]:
                legacy_step(optimizer, lambda: loss(rows), [first, second])

        if is_compiled:
            step = tf.function(
                step, [tf.TensorSpec([size], tf.int32)], jit_compile=True
            )
        step(tf.constant(rows, tf.int32))
        return np.stack([first, second])

    np.testing.assert_allclose(trained(True), trained(False), rtol=1e-5)


@needs_keras3
def test_rows_that_a_mask_leaves_out_do_not_change_in_xla():
    """As with a bare optimizer of Keras 3. A bare newer one of Keras 2 counts such rows."""
    optimizer = wrapped("keras3", "SGD", 0.5)
    table = tf.Variable([[1.0], [1.0], [1.0]])
    optimizer.build([table])

    @tf.function(jit_compile=True)
    def step(rows):
        rows = tf.boolean_mask(rows, rows > 0)
        legacy_step(optimizer, lambda: tf.reduce_sum(tf.gather(table, rows)), [table])

    step(tf.constant([1, 1, 0, 0, 2]))
    np.testing.assert_array_equal(table[:, 0], [1.0, 0.0, 0.5])


ROWS = 100_003  # no other dimension has this size


def _operations_with_the_size_of_the_table(function):
    """Return the types of the operations that have the whole table as an output."""
    graphs = [function.get_concrete_function(tf.TensorSpec((64,), tf.int32)).graph]
    types = []
    for graph in graphs:  # the loop adds the graphs of branches
        for operation in graph.get_operations():
            for output in operation.outputs:
                if output.shape.rank == 2 and output.shape[0] == ROWS:
                    types.append(operation.type)
            for name in ("then_branch", "else_branch"):
                if name in operation.node_def.attr:
                    branch = operation.node_def.attr[name].func.name
                    graphs.append(graph._get_function(branch).graph)
    return sorted(types)


def test_a_step_makes_no_dense_copy_of_the_table(family):
    """The step has no more operations of the table's size than that of the bare optimizer.

    The bare optimizers of Keras 2 have some: they multiply the table by a weight decay of 0.
    """
    operations = []
    for take_step, optimizer in (
        (bare_step, FAMILIES[family].SGD(0.1)),
        (legacy_step, tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(0.1))),
    ):
        table = tf.Variable(tf.zeros((ROWS, 8)))

        @tf.function
        def step(ids, take_step=take_step, optimizer=optimizer, table=table):
            take_step(optimizer, lambda: tf.reduce_sum(tf.gather(table, ids)), [table])

        operations.append(_operations_with_the_size_of_the_table(step))
        step(tf.constant([1] * 64))
        assert float(table[1, 0]) == pytest.approx(-6.4)
    assert operations[0] == operations[1]


@pytest.mark.parametrize("mode", ["eager", "function", "xla"])
def test_slices_may_be_made_from_unscaled_values(family, mode):
    """The optimizer recognizes the values, but must not take them for a dense gradient."""
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(1.0), initial_scale=8.0)
    table = tf.Variable(tf.zeros([3, 2]))
    optimizer.build([table])

    def step(rows):
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(tf.reduce_sum(tf.gather(table, rows)))
        slices = tape.gradient(loss, table)
        (values,) = optimizer.get_unscaled_gradients([slices.values])
        slices = tf.IndexedSlices(values, slices.indices, slices.dense_shape)
        optimizer.apply_gradients([(slices, table)])

    step = step if mode == "eager" else tf.function(step, jit_compile=mode == "xla")
    step(tf.constant([2, 2, 0]))
    np.testing.assert_array_equal(table[:, 0], [-1.0, 0.0, -2.0])
