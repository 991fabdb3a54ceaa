"""Write a file of `record` from the recordings of the old TensorFlow versions.

    python -m tests.golden.extract FOLDER golden|behaviour|configs|training

FOLDER holds one `TF<version>.json` for each version, as recorded, and
`sum_overflow.jsonl`. The recordings are large and stay outside this repository. What
the tests replay goes into the files of `RECORDS`: each case once, with each different
result once and the versions that gave it. Left out are bare optimizers, log lines,
lists of private attributes and, in `golden`, the texts of error messages.

Replace a file only before a release; later add another beside it.
"""

import argparse
import gzip
import json
import pathlib

from tests.golden import extract_behaviour, extract_configs, extract_training

FOLDER = pathlib.Path(__file__).parent / "record"
RECORD = FOLDER / "golden.json.gz"
BEHAVIOUR = FOLDER / "behaviour.json.gz"
CONFIGS = FOLDER / "configs.json.gz"
TRAINING = FOLDER / "training.json.gz"

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
    "attribute",
    "where",
    "aggregate",
    "run_eagerly",
)

# Texts and names of inner functions; the type of an error is kept.
NOISE = {"logs", "message", "error_base", "name"}

EXTRAS = {"gradient_transformers", "gradient_aggregator"}

# Private attributes, and names under `tf`, which are no behaviour of the classes.
NO_BEHAVIOUR = {"Dyn_attrs", "Dyn_vars", "Fixed_attrs", "Fixed_vars", "aliases"}


def without_noise(value, noise=NOISE):
    """Return a copy of `value` without the keys of `noise`."""
    if isinstance(value, dict):
        return {k: without_noise(v, noise) for k, v in value.items() if k not in noise}
    if isinstance(value, list):
        return [without_noise(v, noise) for v in value]
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


# --- Merging versions.


def cases_of(entries_by_version):
    """Return the cases of a section, a list as `record/README.md` describes."""
    cases = {}
    for version, its_entries in entries_by_version.items():
        for entry in its_entries:
            result = dict(entry)
            case = {k: result.pop(k) for k in NAMING if k in result}
            results = cases.setdefault(json.dumps(case), {})
            results.setdefault(json.dumps(result, sort_keys=True), []).append(version)
    return [
        {
            "case": json.loads(case),
            "results": [
                {"versions": versions, "result": json.loads(result)}
                for result, versions in results.items()
            ],
        }
        for case, results in cases.items()
    ]


def merge(recordings):
    """Return the record of `recordings`, a dict of version and content."""
    record = {"coefficients": None, "sections": {}}
    for section in SECTIONS:
        record["sections"][section] = cases_of(
            {
                version: [
                    with_plain_slots(without_noise(entry))
                    for entry in entries(section, recording["sections"][section])
                ]
                for version, recording in recordings.items()
            }
        )
    coefficients = [
        r["sections"]["trajectories"]["coeffs"] for r in recordings.values()
    ]
    if any(c != coefficients[0] for c in coefficients):
        raise ValueError("The versions were recorded with different gradients.")
    record["coefficients"] = coefficients[0]
    return record


def behaviour(recordings, sections=extract_behaviour.SECTIONS):
    """Return the content of `behaviour.json.gz`, or of other sections."""
    return {
        "sections": {
            section: cases_of(
                {
                    version: [
                        extract_behaviour.plain(without_noise(entry, noise))
                        for entry in function(recording["sections"][section])
                        if entry.get("api") != "bare"
                    ]
                    for version, recording in recordings.items()
                }
            )
            for section, (function, noise) in sections.items()
        }
    }


def version_key(version):
    """Sort key of a version such as '2.10.1' or '2.21-tf_keras'."""
    return [int(part) for part in version.split("-")[0].split(".")]


def recordings_in(folder):
    """Return {version: content} of the recordings in `folder`, oldest first."""
    found = {path.stem.removeprefix("TF"): path for path in folder.glob("TF*.json")}
    return {
        version: json.loads(found[version].read_text())
        for version in sorted(found, key=version_key)
    }


def read(folder):
    """Return the content of `golden.json.gz` from the recordings in `folder`."""
    folder = pathlib.Path(folder)
    record = merge(recordings_in(folder))
    probes = (folder / "sum_overflow.jsonl").read_text().splitlines()
    record["sum_overflow"] = [
        {
            "version": probe["tf"],
            "rows": next(v for k, v in probe.items() if k.startswith("rows")),
        }
        for probe in map(json.loads, probes)
    ]
    return record


def read_behaviour(folder):
    """Return the content of `behaviour.json.gz` from the recordings in `folder`."""
    return behaviour(recordings_in(pathlib.Path(folder)))


def read_configs(folder):
    """Return the content of `configs.json.gz` from the recordings in `folder`."""
    recorded = {
        version: list(
            extract_configs.entries(recording["sections"]["config_roundtrip"])
        )
        for version, recording in recordings_in(pathlib.Path(folder)).items()
    }
    return {"sections": {"config_roundtrip": cases_of(recorded)}}


def read_training(folder):
    """Return the content of `training.json.gz` from the recordings in `folder`."""
    recordings = recordings_in(pathlib.Path(folder))
    first, *others = [
        extract_training.inputs(recording["sections"]["keras_training"])
        for recording in recordings.values()
    ]
    if any(other != first for other in others):
        raise ValueError("The versions were trained on different batches.")
    return {**behaviour(recordings, extract_training.SECTIONS), "inputs": first}


RECORDS = {
    "golden": (RECORD, read),
    "behaviour": (BEHAVIOUR, read_behaviour),
    "configs": (CONFIGS, read_configs),
    "training": (TRAINING, read_training),
}


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
    """Read the folder named on the command line and write the record named there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="folder with the recordings")
    parser.add_argument("record", choices=RECORDS, help="the file to write")
    arguments = parser.parse_args()
    path, read_record = RECORDS[arguments.record]
    write(read_record(arguments.folder), path)


if __name__ == "__main__":
    main()
