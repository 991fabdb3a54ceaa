"""Reads all names and attributes of an HDF5 file, as a separate process.

Run this file with the path of an .h5 or .keras file. HDF5 has no checksums: with a damaged
file the library may hang, or end the process.
"""

import sys
import zipfile

import h5py


def read(file):
    """Read what says where the values are, but not the values."""

    def visit(_, item):
        for name in item.attrs:
            item.attrs[name]
        if isinstance(item, h5py.Dataset):
            _ = item.shape, item.dtype, item.chunks

    visit("", file)
    file.visititems(visit)


def main(path):
    """Read the HDF5 file at `path`, or the one in the .keras file there."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            with archive.open("model.weights.h5") as inside, h5py.File(inside) as file:
                read(file)
        return
    with h5py.File(path) as file:
        read(file)


if __name__ == "__main__":
    main(sys.argv[1])
