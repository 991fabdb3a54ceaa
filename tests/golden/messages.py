"""Check that an error message of tf_lso is as clear as a recorded message.

The wording may differ. But if the recorded message shows the value that was received, the
message of tf_lso must show that value, too. Otherwise the message of tf_lso must name what the
recorded message names.
"""

import re

# The words that stand before a value in the recorded messages.
_VALUE = re.compile(r"(?:[Gg]ot(?: value)?|identifier|to float|base 10): ?(.+?)\.?\s*$")
_CONVERTED = re.compile(r"Cannot convert value (\S+) to a mixed precision Policy")
_NAME = re.compile(r"['\"`](\w+)['\"`]|\b(loss_scale(?:_value)?)\b")

# Maps a word of the recorded messages to the word that tf_lso uses instead.
_OURS = {"inner_optimizer": "optimizer", "NoneType": "None"}

# Messages from inside TensorFlow. These messages name nothing that the caller wrote.
_NO_SUBJECT = re.compile(r"Called Trackable|Value for attr 'T'|handle\W* is not avail")


def subjects(message):
    """Return the texts of which an equally clear message must contain at least one.

    The list is empty if any message is clear enough.
    """
    if _NO_SUBJECT.search(message):
        return []
    shown = _VALUE.search(message)
    if shown:
        value = re.sub(r"(LossScaleOptimizer|Policy)V\d", r"\1", shown[1].strip("'"))
        value = re.sub(r"^<(LossScaleOptimizer) object at 0xADDR>$", r"\1", value)
        value = re.sub(r"np\.(True|False)_", r"\1", value)  # the form before NumPy 2
        value = re.sub(r"^<class '(\w+)'>$", r"\1", value)
        return [_OURS.get(value, value)]
    converted = _CONVERTED.search(message)
    if converted:
        return [converted[1]]
    names = [quoted or plain for quoted, plain in _NAME.findall(message)]
    return [_OURS.get(name, name) for name in names]


def is_as_clear(message, recorded, case):
    """Return whether a message names what `recorded` names, or the attribute of the case."""
    if case.get("case") in ("get", "set") and "attribute" in case:
        return case["attribute"] in message
    wanted = subjects(recorded)
    return not wanted or any(subject in message for subject in wanted)
