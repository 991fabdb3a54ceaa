"""The addresses of the repository and of the site, which setup.cfg has."""

import configparser
from pathlib import Path

_SETUP = Path(__file__).parents[2] / "setup.cfg"


def _urls():
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(_SETUP, encoding="utf-8")
    lines = parser["metadata"]["project_urls"].strip().splitlines()
    return [line.partition("=")[2].strip() for line in lines]


REPOSITORY = min((url for url in _urls() if "//github.com/" in url), key=len)
SITE = min((url for url in _urls() if ".readthedocs.io/" in url), key=len)
BRANCH = "main"
