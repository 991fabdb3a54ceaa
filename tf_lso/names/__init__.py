"""Define tables of the old names that TensorFlow 2.0-2.15 had for loss scaling.

The tables say which module had each name, and what replaces the name. This package does not
import TensorFlow.

In tf_lso, each old name begins with `tf_lso` in place of `tf`. For example,
`tf_lso.keras.mixed_precision.Policy` replaces `tf.keras.mixed_precision.Policy`.
"""

from tf_lso.names.namespaces import NAMESPACES as NAMESPACES
from tf_lso.names.namespaces import PRIVATE as PRIVATE
from tf_lso.names.namespaces import Use as Use
from tf_lso.names.namespaces import mirror_names as mirror_names
from tf_lso.names.old_methods import METHODS as METHODS
from tf_lso.names.old_methods import OPTIMIZERS as OPTIMIZERS
from tf_lso.names.old_methods import SCALING as SCALING
from tf_lso.names.spellings import MODULES as MODULES
from tf_lso.names.symbols import CHANGED as CHANGED
from tf_lso.names.symbols import MISSING as MISSING
from tf_lso.names.symbols import SAME as SAME
from tf_lso.names.symbols import SYMBOLS as SYMBOLS
