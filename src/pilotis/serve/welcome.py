"""The text printed at the start: the server's address, and how to try it or where to find its apps and keys."""

from __future__ import annotations

import shlex

from pilotis.serve.installation import Prepared, Sample


def text(
    prepared: Prepared,
    base_url: str,
    listening_url: str,
    metrics_url: str | None = None,
    place: str = "",
    *,
    isolation: str = "",
) -> str:
    """Return the text; its last line mentions Ctrl-C. `base_url` is for clients, `listening_url` what is bound.

    `metrics_url` is the URL of the metrics, None if they are off. `place` contains the flags with which a command finds
    this server's database. `isolation` is a sentence about functions that are not fully isolated, if they are not.
    """
    parts = [_address(base_url, listening_url)]
    if prepared.applied:
        done = [f"Applied {name}." for name in prepared.applied]
        parts.insert(0, "\n".join([*done, prepared.snapshot] if prepared.snapshot else done))
    if metrics_url:
        parts[-1] += f"\nMetrics for Prometheus are at {metrics_url}"
    if isolation:
        parts[-1] += f"\n{isolation}"
    if prepared.sample:
        parts.append(_sample(prepared.sample, base_url))
    else:
        parts.append(f"List the apps and their keys:\n\n  pilotis app list{place}")
    if prepared.setup_token:
        link = f"{base_url}/setup#{prepared.setup_token}"
        parts.append(f"Open this link to become the first console user; it works once:\n\n  {link}")
    parts.append("Ctrl-C stops it.")
    return "\n\n".join(parts)


def _address(base_url: str, listening_url: str) -> str:
    behind = "" if base_url == listening_url else f", listening on {listening_url}"
    return f"Pilotis is at {base_url}{behind}\nIts console is at {base_url}/console"


def _sample(sample: Sample, base_url: str) -> str:
    rows = f"{base_url}/v1/public/tables/{sample.table_id}/data"
    key = shlex.quote(f"X-Public-Key: {sample.public_key}")
    return f"""Created a first app to try, with a table "notes":

  app id      {sample.app_id}
  public key  {sample.public_key}

Create a row in it, and read it back:

  curl -X POST {rows} -H {key} \\
       -H 'Content-Type: application/json' -d '{{"data": {{"text": "Hello"}}}}'
  curl {rows} -H {key}"""
