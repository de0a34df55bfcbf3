"""The guides at `/docs/guides`: the Markdown files of `docs/`, which are part of the package, as pages."""

from __future__ import annotations

import base64
import functools
import re
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from pilotis.http.reference.highlight import highlight

if TYPE_CHECKING:
    from markdown_it.token import Token

_FOLDER = resources.files("pilotis.http.reference") / "guides"
_HEADING = re.compile(r"^# (.+)$", re.MULTILINE)

# In the order in which a beginner reads them.
NAMES = (
    "getting-started",
    "client",
    "members",
    "mail",
    "accounts",
    "teams",
    "tables",
    "rules",
    "rows",
    "references",
    "where",
    "aggregate",
    "views",
    "realtime",
    "search",
    "transactions",
    "files",
    "hosting",
    "project",
    "import-export",
    "errors",
    "console",
    "operating",
    "configuration",
    "oauth",
    "security",
)


class Guide(NamedTuple):
    """A guide: its name in URLs, its title, and its body as HTML."""

    name: str
    title: str
    body: str


@functools.cache
def guides() -> dict[str, Guide]:
    """Return the guides by name; those that are not in `NAMES` come last."""
    found = sorted(path.name.removesuffix(".md") for path in _FOLDER.iterdir() if path.name.endswith(".md"))
    names = [name for name in NAMES if name in found]
    names += [name for name in found if name not in NAMES and name != "index"]
    return {name: _guide(name) for name in names}


def guide_text(name: str) -> str | None:
    """Return the Markdown of a guide or of their index, or None if there is none of the name."""
    return _text(name) if name in guides() or name == "index" else None


def llms_text(base_url: str) -> str:
    """Return the list of the guides for language models, with their addresses as Markdown."""
    lines = [
        f"- [{guide.title}]({base_url}/docs/{guide.name}.md): {_summary(_text(guide.name))}"
        for guide in guides().values()
    ]
    return "\n".join(
        [
            "# Pilotis",
            "",
            "> The backend of an application in one server: members, tables of JSON rows, files, sites, functions, "
            "workflows, webhooks and OAuth, over HTTP.",
            "",
            f"A page imports the client from {base_url}/sdk/v1/pilotis.js, whose types are in "
            f"{base_url}/sdk/v1/pilotis.d.ts.",
            "",
            "## Guides",
            "",
            *lines,
            "",
            "## Reference",
            "",
            f"- [OpenAPI]({base_url}/openapi.json?for=app): every operation of an app's programs",
            f"- [OpenAPI of everything]({base_url}/openapi.json): the console's operations too",
            "",
        ]
    )


def _text(name: str) -> str:
    return (_FOLDER / f"{name}.md").read_text("utf-8")


def _summary(text: str) -> str:
    """Return the first sentence of a guide, without its links."""
    paragraph = next((part for part in text.split("\n\n") if part[0] not in "#`|!<-"), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split())).replace("**", "")
    return re.split(r"(?<=[.:]) ", plain)[0].rstrip(":.")


def _guide(name: str) -> Guide:
    text = _text(name)
    heading = _HEADING.search(text)
    return Guide(name, heading[1] if heading else name, rendered(text))


def rendered(text: str) -> str:
    """Return Markdown as HTML: links lead to pages of this server, and HTML in the text is escaped."""
    from markdown_it import MarkdownIt  # here: few servers are asked for a guide, and it takes a while to import

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("fence", _fence)
    tokens = parser.parse(text)
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", anchor(tokens[place + 1].content))
        for child in token.children or ():
            if child.type == "link_open":
                _lead_on(child)
            elif child.type == "image":
                _inline(child)
    html: str = parser.renderer.render(tokens, parser.options, {})
    return html.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")


def _fence(_renderer: object, tokens: list[Token], index: int, _options: object, _env: object) -> str:
    code = highlight(tokens[index].content.rstrip("\n"))
    return (
        '<div class="sample"><div class="bar"><button type="button" class="copy">Copy</button></div>'
        f'<pre tabindex="0"><code>{code}</code></pre></div>\n'
    )


def anchor(heading: str) -> str:
    """Return the anchor that GitHub generates for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def _lead_on(link: Token) -> None:
    """Point a link at the page that this server has, or remove it."""
    target = str(link.attrGet("href"))
    if re.match(r"[a-z]+:|#", target):
        return
    path, _, fragment = target.partition("#")
    name = path.rpartition("/")[2].removesuffix(".md")
    if "/" not in path and path.endswith(".md") and (_FOLDER / path).is_file():
        link.attrSet(
            "href", f"/docs/guides/{name if name != 'index' else ''}".rstrip("/") + ("#" + fragment) * bool(fragment)
        )
    else:
        link.attrs.clear()


def _inline(picture: Token) -> None:
    """Put a picture of `docs/pictures` into the page, whose policy permits no other address."""
    name = str(picture.attrGet("src")).rpartition("/")[2]
    content = (_FOLDER / "pictures" / name).read_bytes()
    picture.attrSet("src", f"data:image/png;base64,{base64.b64encode(content).decode()}")


def guide_page(guide: Guide) -> str:
    """Return the body of a guide's page, with the list of all guides beside it."""
    return (
        f'<div class="reference guide">\n<nav class="rail" aria-label="Guides">\n{_list(guide.name)}</nav>\n'
        f'<main id="main">\n<div class="text">\n{guide.body}</div>\n</main>\n</div>'
    )


def guides_page() -> str:
    """Return the body of the page that lists the guides."""
    return (
        f'<div class="reference guide">\n<nav class="rail" aria-label="Guides">\n{_list("")}</nav>\n'
        '<main id="main">\n<div class="text"><h1>Guides</h1>\n'
        "<p>For those who build an app, and for those who run the server. Each single operation is in the "
        f'<a href="/docs">API reference</a>.</p>\n{_list("")}</div>\n</main>\n</div>'
    )


def _list(current: str) -> str:
    items = "".join(
        f'<li><a href="/docs/guides/{guide.name}"{" aria-current=page" if guide.name == current else ""}>'
        f"{escape(guide.title)}</a></li>\n"
        for guide in guides().values()
    )
    return f"<ul>\n{items}</ul>\n"
