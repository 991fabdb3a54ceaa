"""What `behaviour.json.gz` holds of each section of the recordings.

A recording tells in one entry all about one optimizer; here each attribute read, each
attribute set and each call is a case of its own, so that the table of differences can
name it.
"""

import re

# Private, or the base classes of TensorFlow.
NOISE = {"logs", "error_base", "mro", "in_hyper", "in_instance_dict"}


def plain(value):
    """Return a copy of `value` in whose texts classes have no module, objects no address.

    Callables are told apart from other values only, not from each other.
    """
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(element) for element in value]
    if not isinstance(value, str):
        return value
    text = re.sub(r"<callable \w+>", "<callable>", value)
    text = re.sub(r"0x[0-9a-f]{6,}", "0xADDR", text)
    return re.sub(r"<(class ')?[^ ']*\.(?=\w+('>| object at))", r"<\1", text)


def public(names):
    """The result of `dir` without private names."""
    return {"ok": [name for name in names["ok"] if not name.startswith("_")]}


def hyperparameter_entries(recorded):
    """One entry for each attribute that was read or set, and for each call."""
    for entry in recorded:
        names = {key: entry[key] for key in ("api", "family", "inner")}
        for case, result in entry.items():
            if case in ("get", "set", "weights"):
                results = result.get("ok", result) if case == "weights" else result
                for attribute, value in results.items():
                    if attribute.startswith("_") and attribute != "_optimizer":
                        continue
                    value = value if isinstance(value, dict) else {"ok": value}
                    yield {**names, "case": case, "attribute": attribute, **value}
            elif case == "dir":
                yield {**names, "case": case, **public(result)}
            elif case not in (*names, "hasattr", "dir_minus_bare"):
                yield {**names, "case": case, **result}


def error_entries(recorded):
    """One entry for each 'api:family:case', or 'api:case', which was of family v2."""
    for name, result in recorded.items():
        api, *family, case = name.split(":")
        if case == "subclassable" and "ok" in result:
            result = {"ok": result["ok"][0]}  # without the names of base classes
        yield {"api": api, "family": (family or ["v2"])[0], "case": case, **result}


def class_entries(recorded):
    """What `golden.json.gz` leaves out: messages, public names, old dotted names."""
    for name, result in recorded.items():
        if name.endswith("_attrs"):
            yield {"case": name, **public(result)}
        elif name == "aliases" or "message" in result:
            yield {"case": name, **result}


# Section -> the function that gives its entries, and the keys left out of them.
SECTIONS = {
    # Which attribute a message is about stands in the case.
    "hyperparameters": (hyperparameter_entries, NOISE | {"message"}),
    "errors": (error_entries, NOISE),
    "loss_scale_classes": (class_entries, NOISE),
}
