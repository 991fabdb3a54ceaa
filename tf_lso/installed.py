"""Call `tf_lso.install()` when a program imports this module.

`import tf_lso.installed` is one line that can stand among other imports, before those of old
names. Like a second call, a second import changes nothing unless the program has called
`tf_lso.uninstall()`.

Example:
>>> import tf_lso.installed
>>> from tensorflow.keras.mixed_precision import experimental
>>> tf_lso.uninstall()

Source: tf_lso adds this; TensorFlow never had it.
"""

from tf_lso.install import install

install()
