"""Whether one message of an error is as clear as another: of what it speaks.

The words are tf_lso's own. But where a recorded message shows the value that was
received, tf_lso's shows it too, and otherwise it names what the recorded one names.
"""

import re

# What stands before a value in the recorded messages.
_VALUE = re.compile(r"(?:[Gg]ot(?: value)?|identifier|to float|base 10): ?(.+?)\.?\s*$")
_CONVERTED = re.compile(r"Cannot convert value (\S+) to a mixed precision Policy")
_NAME = re.compile(r"['\"`](\w+)['\"`]|\b(loss_scale(?:_value)?)\b")

# Arguments that tf_lso calls otherwise, and what it shows in place of a type.
_OURS = {"inner_optimizer": "optimizer", "NoneType": "None"}

# Messages of TensorFlow's internals, which speak of nothing that the caller wrote.
_NO_SUBJECT = re.compile(r"Called Trackable|Value for attr 'T'|handle\W* is not avail")


def subjects(message):
    """The texts of which a message as clear as `message` holds one; maybe none."""
    if _NO_SUBJECT.search(message):
        return []
    shown = _VALUE.search(message)
    if shown:
        value = re.sub(r"(LossScaleOptimizer|Policy)V\d", r"\1", shown[1].strip("'"))
        value = re.sub(r"^<(LossScaleOptimizer) object at 0xADDR>$", r"\1", value)
        value = re.sub(r"np\.(True|False)_", r"\1", value)  # as before NumPy 2
        value = re.sub(r"^<class '(\w+)'>$", r"\1", value)
        return [_OURS.get(value, value)]
    converted = _CONVERTED.search(message)
    if converted:
        return [converted[1]]
    names = [quoted or plain for quoted, plain in _NAME.findall(message)]
    return [_OURS.get(name, name) for name in names]


def is_as_clear(message, recorded, case):
    """Whether `message` speaks of what `recorded` speaks of, or of the case's attribute."""
    if case.get("case") in ("get", "set") and "attribute" in case:
        return case["attribute"] in message
    wanted = subjects(recorded)
    return not wanted or any(subject in message for subject in wanted)
