"""What `configs.json.gz` holds of the section `config_roundtrip` of the recordings."""

# Texts, and in which module the class stood.
NOISE = {"logs", "message", "error_base", "module"}


def numbers(value):
    """Return a copy of `value` with the numbers of {"np": dtype, "v": number}."""
    if isinstance(value, dict):
        if "np" in value:
            return value["v"]
        return {key: numbers(element) for key, element in value.items()}
    return [numbers(v) for v in value] if isinstance(value, list) else value


def without_noise(entry):
    """Return a copy of an entry without the keys of `NOISE`, configs kept."""
    entry = {k: v for k, v in entry.items() if k not in NOISE}
    if isinstance(entry.get("ok"), dict) and "class_name" not in entry["ok"]:
        entry["ok"] = {k: v for k, v in entry["ok"].items() if k not in NOISE}
    return entry


def entries(recorded):
    """One entry for each config made by hand, and for each optimizer's own."""
    for case, result in recorded["handmade"].items():
        yield {"case": case, **without_noise(numbers(result))}
    for entry in recorded["roundtrip"]:
        names = {key: entry[key] for key in ("api", "family", "inner", "kind")}
        for case, result in entry.items():
            if case not in names and entry["api"] != "bare":
                yield {"case": case, **names, **without_noise(numbers(result))}
