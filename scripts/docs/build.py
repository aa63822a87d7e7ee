#!/usr/bin/env python3
"""Builds the documentation site from the pages of the repository, and fails if a link leads nowhere.

    scripts/docs/build.py --surefoot target/debug/surefoot --out target/docs

The pages are copied as they lie in the repository, so that their links work here as they do there. Three pages are made: the
command line from its help, HTTP from /openapi.json, and Python from its docstrings (by mkdocstrings).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.request

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "scripts"))
from service import running  # noqa: E402

PAGES = [
    "*.md",
    "docs/**/*.md",
    "paper/**/*.md",
    "bench/*.md",
    "bench/results/*.md",
    "clients/**/*.md",
    "deploy/**/*.md",
]
LINK = re.compile(r"\]\(([^)#:\s]+)")


def stage(pages: pathlib.Path) -> None:
    """Copies the pages, and the files that they show or link to."""
    sources = {source for pattern in PAGES for source in REPO.glob(pattern) if "node_modules" not in source.parts}
    for page in sorted(sources):
        linked = (page.parent / link for link in LINK.findall(page.read_text()))
        sources.update(path.resolve() for path in linked if path.is_file())
    for source in sources:
        target = pages / source.relative_to(REPO)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def help_of(binary: pathlib.Path, *command: str) -> str:
    done = subprocess.run([binary, *command, "--help"], capture_output=True, text=True, check=True)
    return done.stdout


def command_line(binary: pathlib.Path) -> str:
    """The help of every command, by its name."""
    page = ["# The command line", "", "Written from `surefoot --help`.", ""]

    def add(*command: str) -> None:
        text = help_of(binary, *command)
        page.extend([f"{'#' * min(2 + max(len(command) - 1, 0), 4)} {' '.join(['surefoot', *command])}", "", "```text"])
        page.extend([text.rstrip(), "```", ""])
        listed = re.search(r"^Commands:\n(.*?)\n\n", text, flags=re.S | re.M)
        for name in re.findall(r"^  ([a-z][a-z0-9-]*)", listed[1], flags=re.M) if listed else []:
            if name != "help":
                add(*command, name)

    add()
    return "\n".join(page)


def contract(binary: pathlib.Path) -> dict:
    """The /openapi.json of a server that is started for it."""
    with running(binary) as (address, _), urllib.request.urlopen(f"{address}/openapi.json", timeout=30) as answer:
        return json.load(answer)


def kind(schema: dict) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    for together in ("oneOf", "anyOf", "allOf"):
        if together in schema:
            return " or ".join(dict.fromkeys(kind(part) for part in schema[together]))
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    found = schema.get("type", "any")
    return " or ".join(found) if isinstance(found, list) else found


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def http(document: dict) -> str:
    """A page from an OpenAPI document."""
    page = [
        "# HTTP",
        "",
        "Written from `/openapi.json`, which the server makes from its code. See [the live loop](../service.md).",
        "",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            page.extend(
                [f"## `{method.upper()} {path}`", "", operation.get("summary") or operation.get("description", ""), ""]
            )
            if operation.get("parameters"):
                page.extend(["| parameter | in | type | |", "| --- | --- | --- | --- |"])
                for one in operation["parameters"]:
                    what = [
                        f"`{one['name']}`",
                        one["in"],
                        kind(one.get("schema", {})),
                        cell(one.get("description", "")),
                    ]
                    page.append(f"| {' | '.join(what)} |")
                page.append("")
            for form, body in operation.get("requestBody", {}).get("content", {}).items():
                page.extend([f"Body, `{form}`: {kind(body.get('schema', {}))}", ""])
            page.extend(["| status | body | |", "| --- | --- | --- |"])
            for status, answer in operation["responses"].items():
                bodies = [kind(body.get("schema", {})) for body in answer.get("content", {}).values()]
                page.append(
                    f"| {status} | {', '.join(dict.fromkeys(bodies))} | {cell(answer.get('description', ''))} |"
                )
            page.append("")
    page.extend(["## Bodies", ""])
    for name, schema in document["components"]["schemas"].items():
        page.extend([f"### {name}", "", cell(schema.get("description", "")), ""])
        if schema.get("properties"):
            page.extend(["| field | type | |", "| --- | --- | --- |"])
            for field, what in schema["properties"].items():
                page.append(f"| `{field}` | {kind(what)} | {cell(what.get('description', ''))} |")
        elif "enum" in schema:
            page.append(", ".join(f"`{value}`" for value in schema["enum"]))
        page.append("")
    return "\n".join(page)


PYTHON = """# Python

Made from the docstrings. [A tour](../python.md) is easier to read first.

::: surefoot
    options:
      show_root_heading: false
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surefoot", required=True, type=pathlib.Path, help="the binary")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="a folder, which is emptied")
    given = parser.parse_args()
    pages = given.out.resolve() / "pages"
    shutil.rmtree(given.out, ignore_errors=True)
    stage(pages)
    reference = pages / "docs" / "reference"
    reference.mkdir()
    (reference / "command-line.md").write_text(command_line(given.surefoot))
    (reference / "http.md").write_text(http(contract(given.surefoot)))
    (reference / "python.md").write_text(PYTHON)
    site = given.out.resolve() / "site"
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        REPO / "mkdocs.yml",
        "--site-dir",
        site,
    ]
    done = subprocess.run(command, cwd=REPO, env={**os.environ, "SUREFOOT_PAGES": str(pages)}, check=False)
    if done.returncode == 0:
        print(f"{len(list(site.rglob('*.html')))} pages in {given.out}/site")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
