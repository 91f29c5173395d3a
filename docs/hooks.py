"""What the site needs beyond Markdown: the repository's other files, and diagrams as pictures."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import mermaidx
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK = re.compile(r"(?<=\]\()(?P<path>[^)\s#]+)(?P<fragment>#[^)\s]*)?(?=\))")
DIRECTORY = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<path>[^)\s#:]+)\)")
FETCHED = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="(?:https?:)?//[^"]*"')
DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand at the top of the repository."""
    for name in PROJECT:
        files.append(_repository_file(name, config))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Draw diagrams, and lead links to where the site has what they name."""
    here = page.file.src_uri
    source = here.removeprefix("project/") if here.startswith("project/") else f"docs/{here}"

    def lead(link: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", link["path"]):
            return link[0]
        wanted = os.path.normpath(os.path.join(os.path.dirname(source), link["path"]))
        if wanted.startswith("docs/"):
            target = wanted.removeprefix("docs/")
        elif (ROOT / wanted).is_file():
            target = _project(wanted)
            if target not in files.src_uris:
                files.append(_repository_file(wanted, config))
        else:
            return link[0]
        return os.path.relpath(target, os.path.dirname(here)) + (link["fragment"] or "")

    def unlink(link: re.Match[str]) -> str:
        there = ROOT / os.path.dirname(source) / link["path"]
        return link["text"] if there.resolve().is_dir() else link[0]

    def draw(diagram: re.Match[str]) -> str:
        name = hashlib.sha256(diagram[1].encode()).hexdigest()[:12]
        target = f"images/diagrams/{name}.svg"
        if target not in files.src_uris:
            files.append(File.generated(config, target, content=mermaidx.render(diagram[1]).svg()))
        return f"![Diagram]({os.path.relpath(target, os.path.dirname(here))}){{ .diagram }}"

    return DIAGRAM.sub(draw, LINK.sub(lead, DIRECTORY.sub(unlink, markdown)))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that would fetch something from another host."""
    if fetched := FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} would fetch {fetched[0]}")
    return output


def _project(path: str) -> str:
    """Where the site has a file of the repository; code is shown as text."""
    return f"project/{path}" if path.endswith(".md") else f"project/{path}.txt"


def _repository_file(path: str, config: MkDocsConfig) -> File:
    return File.generated(config, _project(path), abs_src_path=str(ROOT / path))
