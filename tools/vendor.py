"""Fetch the browser libraries of the console, bundle them, and write them with their licences and hashes.

    python tools/vendor.py

needs npm. Each package is pinned by version and by the SHA-512 of its archive; `esbuild` bundles, so the same packages
give the same bytes, whose SHA-256 are in `vendor/VERSIONS.json`. Run it after changing `PACKAGES` or `BUNDLES`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

STATIC = Path(__file__).parents[1] / "src" / "pilotis" / "console" / "static"
VENDOR = STATIC / "vendor"


class Package(NamedTuple):
    """A package: its version, the integrity of its archive, its licence's name and file."""

    version: str
    integrity: str
    licence: str
    licence_file: str = "LICENSE"


PACKAGES = {
    "preact": Package(
        "10.29.8",
        "sha512-ej2aVZ+vZ8WO7tvlQWRM9N63A0KzF9q4mWJfDUHgYaIofWY9hu74QdnQrjoPMmZi2/nZ5gN0bJCQF49xQqx09Q==",
        "MIT",
    ),
    "htm": Package(
        "3.1.1",
        "sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        "Apache-2.0",
    ),
    "@preact/signals": Package(
        "2.11.4",
        "sha512-Rb+5RPo9gWSaHtzJeauhHxiC8KP/IF2DEPkHPEOGOnuy2wnJzRqyeLRankUCYd6ADqtxS6GnWGv6Ie343d8aYw==",
        "MIT",
    ),
    "@preact/signals-core": Package(
        "1.14.5",
        "sha512-vcRv7Ityz5JVmeiVqIluLFzT/PDS/AlhHUpw3/aUWqcVUs6bDGIPXE/6RSC4evBNWYvnniozg5Syfj33al3gkg==",
        "MIT",
    ),
    "@codemirror/autocomplete": Package(
        "6.20.4",
        "sha512-yF8RhOf2SXlg00+qtupzLhrglcas61boqaONiNcbPIebHCpJocpqTBA6dyrtUrQO47hqyTdeob/3XnYilT7TaQ==",
        "MIT",
    ),
    "@codemirror/commands": Package(
        "6.11.1",
        "sha512-O/4hG3SC1YwcmQ0d2UVNDs+AsaNWd1iHVxbTeEBuqH+6bExAiPK3iS/BvpY6rZGURALv4ZD3sIgcCmRvw3ehBg==",
        "MIT",
    ),
    "@codemirror/lang-javascript": Package(
        "6.2.5",
        "sha512-zD4e5mS+50htS7F+TYjBPsiIFGanfVqg4HyUz6WNFikgOPf2BgKlx+TQedI1w6n/IqRBVBbBWmGFdLB/7uxO4A==",
        "MIT",
    ),
    "@codemirror/lang-json": Package(
        "6.0.2",
        "sha512-x2OtO+AvwEHrEwR0FyyPtfDUiloG3rnVTSZV1W8UteaLL8/MajQd8DpvUb2YVzC+/T18aSDv0H9mu+xw0EStoQ==",
        "MIT",
    ),
    "@codemirror/lang-python": Package(
        "6.2.1",
        "sha512-IRjC8RUBhn9mGR9ywecNhB51yePWCGgvHfY1lWN/Mrp3cKuHr0isDKia+9HnvhiWNnMpbGhWrkhuWOc09exRyw==",
        "MIT",
    ),
    "@codemirror/language": Package(
        "6.13.1",
        "sha512-zfvU2r3TyylQLMj/te+5CnQ0rSqZi8B1oTCBbQkagcLW4Xc6imab6qN+pEJhsuNOLaJqiRyBXp9UhWA1DhVvDw==",
        "MIT",
    ),
    "@codemirror/lint": Package(
        "6.9.8",
        "sha512-qNvtcE73xUto/D1RvtgSRI4A1Hg8ekxlvtZpjHpdpisLBnhyu82EUEJMEgaxkjuQCA8vqnrylENWKOsEDCOHcw==",
        "MIT",
    ),
    "@codemirror/state": Package(
        "6.7.6",
        "sha512-kAz+AncRtKuIknedxT1bq4XwXv4UowhbkHU1myPrtVb/jZtImWuV5BXzv5vK6i3kYACsdiZiQKFQQ5Mq7elW8w==",
        "MIT",
    ),
    "@codemirror/streamparser": Package(
        "6.0.0",
        "sha512-JTFPF6xrfjt0mnfGPgzcLiMwYmvIyNaoizp8BYzv8FE8KrT6GBGDZ190rtt+O7Wke3gG/MFHyiY9YGNeimof4w==",
        "MIT",
    ),
    "@codemirror/view": Package(
        "6.43.15",
        "sha512-HHsfpqFeHyXLs983pSRe38Xajs0vFWZQ2BuX0m7Ki8w3jZ5iD8cuR3lBz2/5/X53Dhf32SBHKh6rtSTB6tKeGw==",
        "MIT",
    ),
    "@lezer/common": Package(
        "1.5.5",
        "sha512-Pw7PVCndruF1pb3ebCxpSVpkMHSDjwRCLcTRw+RizUKco5QbWylwq2g4lnG/RYN7yTTQDXE9F77MwtkAyphrjg==",
        "MIT",
    ),
    "@lezer/highlight": Package(
        "1.2.5",
        "sha512-O1GMVKgtf5YspFaRzpmqkVgMtIk2HG9uMAbH6wdAIdNh3TVzCsch/+cRi+6l2//UGDKe6NB9BW3cvuR5ezMQ0w==",
        "MIT",
    ),
    "@lezer/javascript": Package(
        "1.5.6",
        "sha512-sEvOqpl4vJQca0NugSQK02vQPbc5KrvoojnYGoqqFgFO0MtcYhwGiHKVEB+LuXYJnfyXo4QPA8ztbrEa4Fw5NA==",
        "MIT",
    ),
    "@lezer/json": Package(
        "1.0.3",
        "sha512-BP9KzdF9Y35PDpv04r0VeSTKDeox5vVr3efE7eBbx3r4s3oNLfunchejZhjArmeieBH+nVOpgIiBJpEAv8ilqQ==",
        "MIT",
    ),
    "@lezer/lr": Package(
        "1.4.12",
        "sha512-On9HU4oMMiHPMkQDgoTnGahjgG5n/MkN38CgG77sMraKLL+3JBbeQNi1FcCXV9QRqwF9/BUXP3caHyJC1fBOTQ==",
        "MIT",
    ),
    "@lezer/python": Package(
        "1.1.19",
        "sha512-MhQIURHRytsNzP/YXnqpYKW6la6voAH3kyplTOOiCdjyFY6cWWGFVmYVdHIPrElqSDf4iCDktQCockB9FxuhzQ==",
        "MIT",
    ),
    "@marijn/find-cluster-break": Package(
        "1.0.4",
        "sha512-Wy0V7+SGUjnF9/TkiM1hKVDPj7jKXduPNboMVtHTA8dySMURWqfg/JZ9E2Sq8JgSJmkl7k7Qe9FLeMSrSraWmQ==",
        "MIT",
    ),
    "crelt": Package(
        "1.0.7",
        "sha512-aK6BbWfhf4U/wCcLHKPJl/xa6VkVstRaPywWtMKGwuOLc/wZTyQYuoxgvZnNsBvv7Kg3YTBQYYBCggcviQczuA==",
        "MIT",
    ),
    "style-mod": Package(
        "4.1.4",
        "sha512-XXWIQt633/EpAFx8aZDOTjBzrCaGmhvEQlQo6MVPfa2OzO2cWo+4hV9h+6UkHYlXGfy+ODXKUdP7Pthmcu5ATw==",
        "MIT",
    ),
    "w3c-keyname": Package(
        "2.2.8",
        "sha512-dpojBhNsCNN7T82Tm7k26A6G9ML3NkhDsnw9n/eoxSRlVBB4CEtIQ/KTCLI2Fwf3ataSXRhYFkQi3SlnFwPvPQ==",
        "MIT",
    ),
    "@fontsource-variable/ibm-plex-sans": Package(
        "5.3.0",
        "sha512-agG8tXFEo0hD9+J7npa4vbbWult52eMLVaQ6WQRlhs/iCAojrMAoejru85W9HTVXHfyUj96KM7gp/KGAS87XaQ==",
        "OFL-1.1",
    ),
    "@fontsource/ibm-plex-mono": Package(
        "5.3.0",
        "sha512-eTgnZjZEGk1QtD3ZstF+Vclo2HLAni8YMy34/DxllwZvyz1lR/1RF/xTiAquOBO7MvqBx8D2Ig2WCPMVfdZu7Q==",
        "OFL-1.1",
    ),
    "@esbuild/linux-x64": Package(
        "0.28.2",
        "sha512-4xTZr1FUmSoQW4XIWmit3tzQrUTZM+N3P0XV8xROKYF50XfI7xeO90+1bZvNwxIufQ9hDQVRJH5YhgPVF8A/HQ==",
        "MIT",
    ),
    "@esbuild/linux-arm64": Package(
        "0.28.2",
        "sha512-pW4AC0P3it8c7do9MVM4p51FzHzdM/TZrerurgRcHJ2WTa1VQ1CIq18xncfpBJw4ojkiZZrKW2yIBWBP92j6Ug==",
        "MIT",
    ),
}
_MACHINES = {"x86_64": "@esbuild/linux-x64", "aarch64": "@esbuild/linux-arm64"}
TOOL = _MACHINES[platform.machine()]

BUNDLES = {
    "view.js": """
        export { render } from "preact";
        export { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useId } from "preact/hooks";
        export { signal, computed } from "@preact/signals";
        import { h } from "preact";
        import htm from "htm";
        export const html = htm.bind(h);
    """,
    "editor.js": """
        import { autocompletion } from "@codemirror/autocomplete";
        import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
        import { javascript } from "@codemirror/lang-javascript";
        import { json, jsonParseLinter } from "@codemirror/lang-json";
        import { python } from "@codemirror/lang-python";
        import { HighlightStyle, bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
        import { linter } from "@codemirror/lint";
        import { EditorState } from "@codemirror/state";
        import { EditorView, keymap, lineNumbers } from "@codemirror/view";
        import { tags } from "@lezer/highlight";
        export {
            EditorState, EditorView, HighlightStyle, autocompletion, bracketMatching, defaultKeymap, history,
            historyKeymap, indentOnInput, indentWithTab, javascript, json, jsonParseLinter, keymap, lineNumbers, linter,
            python, syntaxHighlighting, tags
        };
    """,
}
TYPES = """\
/** What the console uses of the libraries, for those who check its types. */
export interface Signal<T> {
  value: T;
  peek(): T;
  subscribe(read: (value: T) => void): () => void;
}
export function signal<T>(value: T): Signal<T>;
export function computed<T>(read: () => T): { readonly value: T; peek(): T };
export function html(strings: TemplateStringsArray, ...values: unknown[]): any;
export function render(node: any, parent: Element): void;
export function useState<T>(initial: T | (() => T)): [T, (next: T | ((old: T) => T)) => void];
export function useEffect(effect: () => unknown, inputs?: readonly unknown[]): void;
export function useLayoutEffect(effect: () => unknown, inputs?: readonly unknown[]): void;
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useCallback<T>(callback: T, inputs: readonly unknown[]): T;
export function useRef<T>(initial: T): { current: T };
export function useId(): string;
"""
EDITOR_TYPES = """\
/** What the console uses of CodeMirror 6, without types: `ui/editor.js` alone imports it. */
export const EditorState: any;
export const EditorView: any;
export const HighlightStyle: any;
export const autocompletion: any;
export const bracketMatching: any;
export const defaultKeymap: any;
export const history: any;
export const historyKeymap: any;
export const indentOnInput: any;
export const indentWithTab: any;
export const javascript: any;
export const json: any;
export const jsonParseLinter: any;
export const keymap: any;
export const lineNumbers: any;
export const linter: any;
export const python: any;
export const syntaxHighlighting: any;
export const tags: any;
"""
FONTS = {
    "plex-sans.woff2": "@fontsource-variable/ibm-plex-sans/files/ibm-plex-sans-latin-wght-normal.woff2",
    "plex-mono.woff2": "@fontsource/ibm-plex-mono/files/ibm-plex-mono-latin-400-normal.woff2",
}


def main() -> None:
    """Fetch, check, bundle and write everything."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        modules = work / "node_modules"
        for package, pinned in PACKAGES.items():
            if not package.startswith("@esbuild/") or package == TOOL:
                _unpack(_fetch(package, pinned, work), modules / package)
        shutil.rmtree(VENDOR, ignore_errors=True)
        (VENDOR / "licences").mkdir(parents=True)
        for file, source in BUNDLES.items():
            _bundle(work, source, VENDOR / file)
        (VENDOR / "view.d.ts").write_text(TYPES, "utf-8")
        (VENDOR / "editor.d.ts").write_text(EDITOR_TYPES, "utf-8")
        for file, path in FONTS.items():
            shutil.copyfile(modules / path, STATIC / "fonts" / file)
        _write_licences(modules)
    _write_versions()


def _fetch(package: str, pinned: Package, work: Path) -> Path:
    command = ["npm", "pack", "--silent", f"{package}@{pinned.version}"]
    name = subprocess.run(command, cwd=work, check=True, capture_output=True, text=True).stdout.split()[-1]  # noqa: S603
    archive = work / name
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != pinned.integrity:
        raise SystemExit(f"{package} {pinned.version} has another content than was pinned: {found}")
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as opened:
        opened.extractall(folder.parent / "unpacked", filter="data")
    folder.parent.mkdir(parents=True, exist_ok=True)
    next((folder.parent / "unpacked").iterdir()).rename(folder)
    (folder.parent / "unpacked").rmdir()


def _bundle(work: Path, source: str, target: Path) -> None:
    entry = work / "entry.js"
    entry.write_text(source, "utf-8")
    options = ["--bundle", "--format=esm", "--minify", "--target=es2022", "--legal-comments=none"]
    esbuild = work / "node_modules" / TOOL / "bin" / "esbuild"
    esbuild.chmod(0o755)
    subprocess.run([esbuild, entry, *options, f"--outfile={target}"], cwd=work, check=True, capture_output=True)  # noqa: S603


def _write_licences(modules: Path) -> None:
    for package, pinned in PACKAGES.items():
        if not package.startswith("@esbuild/"):
            name = package.replace("/", "-").removeprefix("@")
            shutil.copyfile(modules / package / pinned.licence_file, VENDOR / "licences" / f"{name}.txt")


def _write_versions() -> None:
    files = [VENDOR / file for file in BUNDLES] + [STATIC / "fonts" / file for file in FONTS]
    versions = {
        "packages": {
            package: {"version": pinned.version, "licence": pinned.licence}
            for package, pinned in PACKAGES.items()
            if not package.startswith("@esbuild/")
        },
        "sha256": {str(file.relative_to(STATIC)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files},
    }
    (VENDOR / "VERSIONS.json").write_text(json.dumps(versions, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
