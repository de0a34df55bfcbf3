"""The introduction of the reference: addresses, credentials and the form of errors."""

from __future__ import annotations

from html import escape

from pilotis.http.api.json_schemas import Json
from pilotis.http.reference.highlight import highlight

_ERROR = """{
  "code": "VALIDATION_FAILED",
  "message": "name is required.",
  "details": [{ "field": "name", "code": "REQUIRED", "message": "name is required." }],
  "request_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"
}"""

_CREDENTIALS = (
    ("PUBLIC_KEY", "<code>X-Public-Key</code>", "Names the app. Not a secret: every page of the app contains it."),
    ("ACCESS_TOKEN", "<code>Authorization: Bearer</code>", "A member, from sign-up or sign-in."),
    ("SECRET_KEY", "<code>Authorization: Bearer</code>", "Your own servers. Never put it into a page."),
    ("CONSOLE_TOKEN", "<code>Authorization: Bearer</code>", "A console user, who owns and manages apps."),
)


def introduction(document: Json) -> str:
    """Return the part of the page before the operations, as HTML."""
    url = escape(document["servers"][0]["url"])
    rows = "".join(
        f"<tr><th scope='row'><code>{name}</code></th><td>{header}</td><td>{who}</td></tr>\n"
        for name, header, who in _CREDENTIALS
    )
    setting = "PUBLIC_KEY=pk_…\nTABLE_ID=0199c0de-…"
    return f"""<section id="introduction" class="intro">
<div class="explanation">
<p class="eyebrow">Pilotis {escape(str(document["info"]["version"]))}</p>
<h1>API reference</h1>
<p class="lead">Members, tables, rows and files for your app, over JSON. Requests go to <code>{url}</code>.</p>
<p>New here? Read <a href="/docs/guides/getting-started">Getting started</a>, or look at
<a href="/docs/guides">all guides</a>. Tools that generate clients read <a href="/openapi.json">openapi.json</a>.</p>
<h2>Credentials</h2>
<div class="scroll" tabindex="0"><table><thead><tr><th>In examples</th><th>Header</th><th>Who acts</th></tr></thead>
<tbody>{rows}</tbody></table></div>
</div>
<div class="shown"><div class="sample" id="values"><div class="bar"><span>Values in the examples</span></div>
<pre tabindex="0"><code>{highlight(setting)}</code></pre></div>
<p class="note">A name in capitals, such as <code>$TABLE_ID</code>, is a value of yours. Set it as a variable first.
<b>Run</b> sends an example from this page. Keys and tokens that you enter stay in this page.
Python examples use httpx: <code>pip install httpx</code>.</p></div>
</section>
<section id="errors" class="intro">
<div class="explanation">
<h2>Errors</h2>
<p>Every error has this form. <code>code</code> is for programs, <code>message</code> for people, <code>details</code>
names the invalid fields. <code>request_id</code>, also in the header <code>X-Request-Id</code>, finds the request in
the server's logs. A 429 or 503 says in <code>Retry-After</code> when to retry.
<a href="/docs/guides/errors">All codes</a>.</p>
</div>
<div class="shown"><div class="sample"><div class="bar"><span>Error <b>400</b></span></div>
<pre tabindex="0"><code>{highlight(_ERROR)}</code></pre></div></div>
</section>
"""
