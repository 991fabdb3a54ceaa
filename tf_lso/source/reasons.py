"""The reasons why something is left as it is."""

from typing import NamedTuple


class Reason(NamedTuple):
    """Why something is left, and what to do about it. `{}` is the new name, if any."""

    why: str
    do: str

    def of(self, instead: str = "") -> "Reason":
        """Return the reason at one place."""
        instead = instead or "the name in tf_lso"
        return Reason(self.why.format(instead), self.do.format(instead))


CONTRIB = Reason(
    "tf.contrib is gone since TensorFlow 2.0, and tf_lso has nothing that stands for it.",
    "Rewrite it by hand; {} does what it did.",
)
STRANGER = Reason(
    "No version had such a name in public, and tf_lso has none.",
    "Look up what was meant.",
)
KERAS_3 = Reason(
    "The file uses what only Keras 3 has, and nothing of the old API: this is Keras 3's own.",
    "Nothing, if it was written for Keras 3. Else write {}.",
)
TF_KERAS = Reason(
    "tf_keras still has it, for its own optimizers.",
    "Nothing. To move its optimizers too, write "
    "tf_lso.keras.mixed_precision.LossScaleOptimizer for its class.",
)
LEGACY_KERAS = Reason(
    "tf_lso's policies are those of the Keras that tf.keras is, maybe another than this one.",
    "Import the policies from the Keras whose layers they are for.",
)
STAR = Reason(
    "Which names a star import brings cannot be seen.",
    "Import by name what is used, and migrate again.",
)
SHADOWED = Reason(
    "The name that it starts with is bound to something else too, or cannot be seen.",
    "Give the two different names, or write {} by hand.",
)
UNBOUND = Reason(
    "Nothing in the file binds the name that it starts with.",
    "Import it, and migrate again.",
)
ELSEWHERE = Reason(
    "The name that it starts with comes from another module, which cannot be seen.",
    "Import TensorFlow itself, and migrate again; or write {} by hand.",
)
DYNAMIC = Reason(
    "Which name it asks for is known only when it runs.",
    "Ask {} where the name may be an old one; or keep tf_lso.install().",
)
SEVERAL = Reason(
    "It stands for one of several things, which have different new names.",
    "Write {} by hand where that is meant.",
)
STORED = Reason(
    "It puts something of the program's own in the place of an old name.",
    "Put it into {}, if tf_lso is to use it; or use it by its own name.",
)
TEXT = Reason(
    "It is a text that looks like code or like an old name.",
    "Write {} in it, if it is run or looked up.",
)
MAGIC = Reason(
    "It stands in a line that only IPython understands.",
    "Write tf_lso for tf by hand.",
)
GENERATED = Reason("The file says that it is generated.", "Change what generates it.")
REFUSED = Reason(
    "No version of the class took these arguments, and tf_lso refuses them.", "{}"
)
LAYOUT = Reason(
    "A comment or parentheses stand within the name, or it is in an f-string of several lines.",
    "Write {} by hand.",
)
CALLED = Reason(
    "It starts with a call, not with a name.", "Import {} and begin with that."
)
NEEDS = Reason(
    "It works by more than a name: {}.",
    "Keep tf_lso.install() at the top of the program, or change it by hand.",
)
MADE_ELSEWHERE = Reason(
    "Which optimizer it asks is decided elsewhere: nothing in this file makes one.",
    "Migrate what wraps the optimizer, compiles it or sets the policy, or call "
    "tf_lso.install() at the top of the main program.",
)
GUARD = Reason(
    "Trains wrong, silently, where the optimizer is Keras 3's: the guard leaves it out, so "
    "the loss is not scaled, and the gradients are divided all the same.",
    "See to it that the optimizer is tf_lso's: migrate what sets the policy, wraps or "
    "compiles it, or call tf_lso.install() at the top of the main program.",
)
