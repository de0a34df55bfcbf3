"""What a start prints: where Pilotis is, and on the first start how to try it."""

from __future__ import annotations

import shlex

from pilotis.serve.installation import Prepared, Sample


def text(prepared: Prepared, base_url: str, listening_url: str) -> str:
    """Return the text; its last line names Ctrl-C. `base_url` is for clients, `listening_url` what is bound."""
    parts = [_address(base_url, listening_url)]
    if prepared.sample:
        parts.append(_sample(prepared.sample, base_url))
    if prepared.setup_token:
        parts.append(
            f"Create the first console user; the link works once:\n\n  {base_url}/setup#{prepared.setup_token}"
        )
    parts.append("Ctrl-C stops it.")
    return "\n\n".join(parts)


def _address(base_url: str, listening_url: str) -> str:
    behind = "" if base_url == listening_url else f", listening on {listening_url}"
    return f"Pilotis is at {base_url}{behind}"


def _sample(sample: Sample, base_url: str) -> str:
    rows = f"{base_url}/v1/public/tables/{sample.table_id}/data"
    key = shlex.quote(f"X-Public-Key: {sample.public_key}")
    return f"""A first app is there to try, with a table "notes":

  app id      {sample.app_id}
  public key  {sample.public_key}

Create a row in it, and read it back:

  curl -X POST {rows} -H {key} \\
       -H 'Content-Type: application/json' -d '{{"data": {{"text": "Hello"}}}}'
  curl {rows} -H {key}"""
