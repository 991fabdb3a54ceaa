"""Files to migrate, and git."""

import pathlib
import subprocess

OLD = "from tensorflow.keras import mixed_precision\n"
NEW = "from tf_lso.keras import mixed_precision\n"


def write(name, data=OLD):
    path = pathlib.Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def git(*arguments):
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout
