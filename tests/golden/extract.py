"""Write `record/golden.json.gz` from the recordings of the old TensorFlow versions.

    python tests/golden/extract.py FOLDER

FOLDER holds one `TF<version>.json` for each version, as recorded, and
`sum_overflow.jsonl`. The recordings are large and stay outside this repository. What
the tests replay goes into one file: each case once, with each different result once
and the versions that gave it. Left out are bare optimizers, log lines, the texts of
error messages, and lists of private attributes.

Replace the record only before a release; later add another file beside it.
"""

import argparse
import gzip
import json
import pathlib

RECORD = pathlib.Path(__file__).parent / "record" / "golden.json.gz"

SECTIONS = (
    "trajectories",
    "schedules_and_clipping",
    "sparse_and_half",
    "scaled_loss",
    "unscaled_gradients",
    "floor_and_overflow",
    "minimize_variants",
    "loss_scale_classes",
    "extras",
)

# Together they name a case; everything else in an entry is its result.
NAMING = (
    "api",
    "family",
    "inner",
    "case",
    "kind",
    "scale",
    "growth",
    "style",
    "mode",
    "pattern",
)

# Texts and names of inner functions; the type of an error is kept.
NOISE = {"logs", "message", "error_base", "name"}

EXTRAS = {"gradient_transformers", "gradient_aggregator"}

# Private attributes, and names under `tf`, which are no behaviour of the classes.
NO_BEHAVIOUR = {"Dyn_attrs", "Dyn_vars", "Fixed_attrs", "Fixed_vars", "aliases"}


def without_noise(value):
    """Return a copy of `value` without the keys of `NOISE`."""
    if isinstance(value, dict):
        return {k: without_noise(v) for k, v in value.items() if k not in NOISE}
    if isinstance(value, list):
        return [without_noise(v) for v in value]
    return value


def slot_name(recorded):
    """Return 'm/v0' for 'SGD/m/v0' and the like: the scope differs between versions."""
    return "/".join(recorded.split("/")[-2:])


def with_plain_slots(value):
    """Return a copy of `value` with short slot names."""
    if isinstance(value, list):
        return [with_plain_slots(v) for v in value]
    if isinstance(value, dict):
        value = {k: with_plain_slots(v) for k, v in value.items()}
        if isinstance(value.get("slots"), dict):
            value["slots"] = {slot_name(k): v for k, v in value["slots"].items()}
    return value


def entries(section, recorded):
    """Return the entries of a section that the tests replay, a list of dicts."""
    if section == "trajectories":
        recorded = recorded["runs"]
    if section == "loss_scale_classes":
        recorded = [
            {"case": name, **entry}
            for name, entry in recorded.items()
            if name not in NO_BEHAVIOUR
        ]
    if section == "extras":
        recorded = [entry for entry in recorded if entry["case"] in EXTRAS]
    return [entry for entry in recorded if entry.get("api") != "bare"]


def merge(recordings):
    """Return the record of `recordings`, a dict of version and content."""
    record = {"coefficients": None, "sections": {}}
    for section in SECTIONS:
        cases = {}
        for version, recording in recordings.items():
            for entry in entries(section, recording["sections"][section]):
                entry = with_plain_slots(without_noise(entry))
                case = {k: entry.pop(k) for k in NAMING if k in entry}
                results = cases.setdefault(json.dumps(case), {})
                results.setdefault(json.dumps(entry, sort_keys=True), []).append(
                    version
                )
        record["sections"][section] = [
            {
                "case": json.loads(case),
                "results": [
                    {"versions": versions, "result": json.loads(result)}
                    for result, versions in results.items()
                ],
            }
            for case, results in cases.items()
        ]
    coefficients = [
        r["sections"]["trajectories"]["coeffs"] for r in recordings.values()
    ]
    if any(c != coefficients[0] for c in coefficients):
        raise ValueError("The versions were recorded with different gradients.")
    record["coefficients"] = coefficients[0]
    return record


def version_key(version):
    """Sort key of a version such as '2.10.1' or '2.21-tf_keras'."""
    return [int(part) for part in version.split("-")[0].split(".")]


def read(folder):
    """Return the record of the recordings in `folder`."""
    folder = pathlib.Path(folder)
    found = {path.stem.removeprefix("TF"): path for path in folder.glob("TF*.json")}
    recordings = {
        version: json.loads(found[version].read_text())
        for version in sorted(found, key=version_key)
    }
    record = merge(recordings)
    probes = (folder / "sum_overflow.jsonl").read_text().splitlines()
    record["sum_overflow"] = [
        {
            "version": probe["tf"],
            "rows": next(v for k, v in probe.items() if k.startswith("rows")),
        }
        for probe in map(json.loads, probes)
    ]
    return record


def write(record, path):
    """Write `record` so that equal records give equal bytes."""
    text = json.dumps(record, separators=(",", ":"), sort_keys=True)
    # Without the file's name and time, and by a class whose header is the same in
    # every Python, unlike that of `gzip.compress`.
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", 9, fileobj=file, mtime=0) as packed,
    ):
        packed.write(text.encode())


def main():
    """Read the folder named on the command line and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="folder with the recordings")
    write(read(parser.parse_args().folder), RECORD)


if __name__ == "__main__":
    main()
