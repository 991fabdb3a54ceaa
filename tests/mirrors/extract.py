"""Make record/api.json of dumps of the real TensorFlow versions' public API.

    python -m tests.mirrors.extract DUMPS tests/mirrors/record/api.json

DUMPS is a folder of files TF<version>.json, each made by `inspect` in that version. Of
them the record keeps the loss-scaling names of TensorFlow 2: for each name its
signature, for each member of a class its kind and signature, with the versions.
"""

import json
import pathlib
import sys

KEPT = ("Policy", "policy", "LossScale", "graph_rewrite")
LEFT_OUT = ("Shard",)  # policies of another kind


def record_of(dumps):
    """Return {namespace: {name: {"signatures": ..., "members": ...}}}.

    Signatures are dicts of a signature's text and its list of versions; members are
    dicts of a member's name and the same of "kind signature".
    """
    record = {}
    for version, dump in dumps:
        for namespace, entries in dump["namespaces"].items():
            for name, entry in entries.items():
                if any(word in name for word in LEFT_OUT):
                    continue
                if not any(word in name for word in KEPT):
                    continue
                kept = record.setdefault(namespace, {}).setdefault(
                    name, {"signatures": {}, "members": {}}
                )
                signature = entry.get("init_signature") or entry.get("signature")
                kept["signatures"].setdefault(signature, []).append(version)
                for kind in ("methods", "properties"):
                    for member, facts in (entry.get(kind) or {}).items():
                        text = f"{kind[:-1]} {facts.get('signature', '')}".strip()
                        members = kept["members"].setdefault(member, {})
                        members.setdefault(text, []).append(version)
    return record


def main(source, target):
    """Write the record of the dumps in `source` to `target`."""
    paths = sorted(pathlib.Path(source).glob("TF2.*.json"), key=_order)
    dumps = [
        (path.stem.removeprefix("TF"), json.loads(path.read_text())) for path in paths
    ]
    text = json.dumps(record_of(dumps), indent=1, sort_keys=True)
    pathlib.Path(target).write_text(text + "\n")


def _order(path):
    numbers = path.stem.removeprefix("TF").split("-")[0].split(".")
    return [int(number) for number in numbers], path.stem


if __name__ == "__main__":
    main(*sys.argv[1:])
