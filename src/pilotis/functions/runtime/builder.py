"""Installs a function's PyPI packages, inside a sandbox, with the pip in /pip and nothing of Pilotis beside it.

Outside of one its arguments are the folder in which it works and the path of pip.

It reads {requirements, registry} as JSON from standard input, and writes one line of JSON with the packages and then
a zip archive of their files to standard output. Wheels are unpacked, and no code of a package runs.
"""

import base64
import importlib.metadata
import json
import os
import subprocess
import sys
import zipfile

FOLDER, PIP = sys.argv[1:] if len(sys.argv) == 3 else ("/tmp", "/pip/pip")  # noqa: S108
TARGET = f"{FOLDER}/packages"
REQUIREMENTS = f"{FOLDER}/requirements.txt"
ARCHIVE = f"{FOLDER}/packages.zip"


def main() -> None:
    """Install and pack."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    output.write(b"ready\n")
    output.flush()
    request = json.load(sys.stdin)
    with open(REQUIREMENTS, "wb") as file:
        file.write(base64.b64decode(request["requirements"]))
    line = [sys.executable, "-I", "-S", "-B", PIP]
    line += ["install", "--isolated", "--no-input", "--only-binary", ":all:", "--no-compile", "--no-cache-dir"]
    line += ["--disable-pip-version-check", "--progress-bar", "off", "--root-user-action", "ignore"]
    line += ["--cert", os.environ["SSL_CERT_FILE"], "--target", TARGET, "--requirement", REQUIREMENTS]
    line += ["--index-url", request["registry"]] if request["registry"] else []
    if subprocess.run(line, stdin=subprocess.DEVNULL, check=False).returncode:
        sys.exit(1)
    found = importlib.metadata.distributions(path=[TARGET])
    packages = sorted(({"name": one.name, "version": one.version} for one in found), key=lambda one: one["name"])
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder, _, names in os.walk(TARGET):
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    archive.write(path, os.path.relpath(path, TARGET))
    output.write(json.dumps(packages).encode() + b"\n")
    with open(ARCHIVE, "rb") as file:
        while chunk := file.read(1 << 20):
            output.write(chunk)
    output.flush()


if __name__ == "__main__":
    main()
