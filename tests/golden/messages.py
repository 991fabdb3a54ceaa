"""Check that an error message of tf_lso is as clear as a recorded message.

The wording may differ. But if the recorded message shows the value that was received, the
message of tf_lso must show that value, too. Otherwise the message of tf_lso must contain one of
the names that the recorded message contains, such as the name of an argument.
"""

import re

# These patterns find the received value and the quoted names in a recorded message.
_VALUE = re.compile(r"(?:[Gg]ot(?: value)?|identifier|to float|base 10): ?(.+?)\.?\s*$")
_CONVERTED = re.compile(r"Cannot convert value (\S+) to a mixed precision Policy")
_NAME = re.compile(r"['\"`](\w+)['\"`]|\b(loss_scale(?:_value)?)\b")

# Maps a word of the recorded messages to the word that tf_lso uses instead.
_OURS = {"inner_optimizer": "optimizer", "NoneType": "None"}

# Messages from inside TensorFlow. These messages name nothing that the caller wrote.
_NO_SUBJECT = re.compile(r"Called Trackable|Value for attr 'T'|handle\W* is not avail")


def subjects(message):
    """Return a list of texts. An equally clear message must contain at least one of them.

    The list is empty if every message is clear enough.
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
    """Return whether a message of tf_lso is as clear as the recorded message.

    If the case reads or sets an attribute, the message must name the attribute.
    """
    if case.get("case") in ("get", "set") and "attribute" in case:
        return case["attribute"] in message
    wanted = subjects(recorded)
    return not wanted or any(subject in message for subject in wanted)
