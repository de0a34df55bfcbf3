"""Published vulnerabilities of similar products that Pilotis is tested against, by class of attack.

A test names the references that it covers: `@pytest.mark.advisory("GHSA-…")`. `tools/advisory_table.py` writes the
tables of docs/design/threats.md; `test_references.py` checks that each reference has a test.
"""

from typing import NamedTuple

CLASSES = {
    "A1": "SQL injection through names",
    "A2": "Type confusion",
    "B": "Oracles on hidden values",
    "C": "Denial of service",
    "D": "Bypassed limits",
    "E": "Single-use values used more than once",
    "F": "Sessions and accounts",
    "G": "Token confusion",
    "H": "Privilege escalation",
    "I": "Leaks between tenants",
    "J": "Files",
    "L": "Trusted headers and poisoned links",
    "N": "Prototype pollution and reserved names",
    "P": "Insecure defaults",
}


class Reference(NamedTuple):
    """One published vulnerability; a `reference` without a product's name belongs to Parse Server."""

    class_: str
    reference: str
    meaning: str


REFERENCES = [
    Reference("A1", "GHSA-c442-97qw-j6c6", "SQL injection through a field name in a query"),
    Reference("A1", "GHSA-qpr4-jrj4-6f27", "SQL injection through a dotted field name"),
    Reference("A1", "GHSA-p2w6-rmh7-w8q3", "SQL injection through a field name in an aggregation"),
    Reference("A1", "GHSA-gqpp-xgvh-9h7h", "SQL injection through the path of an increment"),
    Reference("A1", "GHSA-q3vj-96h2-gwvg", "SQL injection through the amount or a nested name of an increment"),
    Reference("A1", "GHSA-c2hr-cqg6-8j6r", "SQL injection through a regular expression in a query"),
    Reference("A1", "GHSA-6927-3vr9-fxf2", "SQL injection that bypasses a blocklist"),
    Reference("A1", "parse-server#10261", "incomplete escaping of JSON keys"),
    Reference("A2", "GHSA-vgjh-hmwf-c588", "a token is sent as an object with an operator"),
    Reference("A2", "GHSA-5fw2-8jcv-xh87", "account takeover with an operator in place of an account's identifier"),
    Reference("A2", "parse-server#10209", "a value of another type is sent in place of a string"),
    Reference("A2", "parse-server#10212", "a parameter is sent with another type"),
    Reference("A2", "parse-server#10230", "an operator is sent with a value of another type"),
    Reference("B", "GHSA-72hp-qff8-4pvv", "a hidden field can be tested inside $or and $and"),
    Reference("B", "GHSA-r2m8-pxm9-9c4g", "a hidden field can be tested and sorted by through a dotted name"),
    Reference(
        "B", "GHSA-2m6g-crv8-p3c6", "a hidden value can be guessed character by character with regular expressions"
    ),
    Reference("B", "PocketBase v0.31.0", "a filter reveals rows that the caller may not read"),
    Reference("B", "PocketBase v0.32.0", "a filter on a hidden field reveals its value"),
    Reference(
        "B", "GHSA-9cp7-3q5w-j92g", "a malformed regular expression is answered with the database's error message"
    ),
    Reference("B", "GHSA-37mj-c2wf-cx96", "reading one's own record reveals credentials"),
    Reference("B", "GHSA-wp76-gg32-8258", "verifying a password reveals credentials"),
    Reference("C", "GHSA-mf3j-86qx-cq5j", "regular expression denial of service (ReDoS)"),
    Reference("C", "GHSA-827p-g5x5-h86c", "a malformed regular expression crashes the server"),
    Reference("C", "GHSA-9xp9-j92r-p88v", "no limit on the nesting of conditions"),
    Reference("C", "GHSA-9fjp-q3c4-6w3j", "nesting that grows after it was checked"),
    Reference("C", "GHSA-6qh5-m6g3-xhq6", "a route that does not check nesting"),
    Reference("C", "GHSA-cmj3-wx7h-ffvg", "no limit on the complexity of queries"),
    Reference("C", "parse-server#10265", "no limit on the operations of a batch"),
    Reference("C", "GHSA-h423-w6qv-2wj3", "an invalid range crashes the server"),
    Reference("C", "CVE-2025-62727", "Starlette: many ranges take quadratic time"),
    Reference("C", "GHSA-792q-q67h-w579", "a file without an extension crashes the server"),
    Reference("C", "GHSA-6hh7-46r2-vf29", "an invalid name in a path crashes the server"),
    Reference("C", "GHSA-4263", "a name that is an attribute of every object crashes the server"),
    Reference("C", "GHSA-5j86-7r7m-p8h6", "a name is looked up among the language's built-in properties"),
    Reference("C", "PocketBase #7762", "a failure in a background task crashes the server"),
    Reference("C", "GHSA-6q22-g298-grjh", "Directus: each health check causes expensive work in all components"),
    Reference("C", "GHSA-g4cf-xj29-wqqr", "a sign-in that searches all accounts"),
    Reference("D", "GHSA-775h-3xrc-c228", "a batch counts as one request"),
    Reference("D", "parse-server#10234", "a header changes the method after the rate limit was checked"),
    Reference("D", "parse-server#10214", "clients without a key share one limit"),
    Reference("D", "parse-server#10266", "concurrent guesses are not counted"),
    Reference("E", "GHSA-r3xq-68wh-gwvh", "a single-use token works twice in concurrent requests"),
    Reference("E", "parse-server#10150", "concurrent sign-ups create two accounts with the same name"),
    Reference("F", "GHSA-5v7g-9h8f-8pgg", "creating a session can set fields that belong to the server"),
    Reference("F", "GHSA-jc39", "updating a session can set fields that belong to the server"),
    Reference("F", "GHSA-6w4q-23cf-j9jp", "a member can change another member's session"),
    Reference("F", "parse-server#10194", "a cached session remains valid after it ended"),
    Reference("F", "GHSA-6r2j-cxgf-495f", "a parameter adds tokens to a response"),
    Reference("F", "GHSA-wjqw-r9x4-j59v", "an empty credential is accepted"),
    Reference("F", "GHSA-pfj7-wv7c-22pr", "part of a credential is accepted"),
    Reference("F", "GHSA-56p6-qw3c-fq2g", "Directus: a deactivated user keeps access until the token expires"),
    Reference("F", "Kinto 8.2.0", "the password is not verified while a session is cached"),
    Reference("F", "GHSA-mmpq-5hcv-hf2v", "CVE-2026-39321: the timing of a sign-in reveals whether an account exists"),
    Reference("F", "GHSA-w54v-hf9p-8856", "a response reveals whether an account exists"),
    Reference("F", "GHSA-h29g-q5c2-9h4f", "a page reveals whether an account exists"),
    Reference("F", "GHSA-8w3j-g983-8jh5", "information about an account is returned before its credential is verified"),
    Reference("F", "GHSA-g4v2-qx3q-4p64", "CVE-2026-39381: reading one's own session reveals hidden fields"),
    Reference("F", "CVE-2026-43930", "concurrent sign-ins use a single-use value twice"),
    Reference("F", "CVE-2026-53725", "an unrelated response contains a member's secrets"),
    Reference(
        "F", "GHSA-m93w-4fxv-r35v", "PocketBase: accounts of several providers are linked by an unverified address"
    ),
    Reference("G", "GHSA-4q3h-vp4r-prv2", "the token chooses the algorithm of its verification"),
    Reference("G", "GHSA-x6fw-778m-wr9v", "the audience is not checked"),
    Reference("G", "GHSA-48mh-j4p5-7j9v", "one of several sign-in methods does not check the audience"),
    Reference("G", "CVE-2026-31813", "Supabase: the issuer is not checked"),
    Reference("G", "GHSA-fr88-w35c-r596", "the token of one identity is accepted for another"),
    Reference("G", "CVE-2025-59420", "Authlib: a critical header that must be understood is ignored"),
    Reference("G", "GHSA-69xg-f649-w5g2", "introspection confirms a token that was issued to another client"),
    Reference("G", "GHSA-2cjm", "sign-ins at several identity providers share one state"),
    Reference("H", "GHSA-79wj-8rqv-jvp5", "a read-only credential can obtain a credential that can write"),
    Reference("H", "GHSA-xfh7-phr7-gr2x", "a read-only credential can write files"),
    Reference("H", "GHSA-vc89-5g3r-cmhh", "a read-only credential can start an operation that writes"),
    Reference("H", "GHSA-h3jj-5f3v-3685", "n8n: a user with read access can start executions"),
    Reference("H", "GHSA-7xg7-rqf6-pw6c", "the service's internal tables can be accessed like a user's tables"),
    Reference("H", "GHSA-5f92-jrq3-28rc", "roles can be granted by writing to the table of roles"),
    Reference("I", "Kinto CHANGELOG l.563", "a page cursor reveals rows of another collection"),
    Reference("J", "GHSA-hcj7-6gxh-24ww", "an SVG with a script"),
    Reference("J", "GHSA-v5hf-f4c3-m5rv", "HTML in a file with a less common extension"),
    Reference("J", "GHSA-42ph-pf9q-cr72", "HTML hidden by a parameter of the media type; XML types not covered"),
    Reference("J", "parse-server#10158", "browsers may sniff the content type"),
    Reference("J", "GHSA-hwx8-q9cg-mqmc", "a file's metadata is returned without an access check"),
    Reference("J", "GHSA-vr5f-2r24-w5hc", "CVE-2026-35200: the extension and the media type disagree"),
    Reference("J", "GHSA-hm3f-q6rw-m6wh", "path traversal"),
    Reference("J", "parse-server#10242", "path traversal through a language code"),
    Reference("J", "CVE-2026-21858", "n8n: JSON that is treated as a form names a file on the server"),
    Reference("J", "CVE-2026-21877", "n8n: a request writes a file on the server"),
    Reference("J", "PocketBase v0.22", "an archive contains links and other entries that are not regular files"),
    Reference("L", "GHSA-3529-5m8x-rpv3", "Supabase: links are derived from X-Forwarded-Host"),
    Reference("L", "CVE-2026-22794", "Appsmith: links are derived from Origin"),
    Reference("L", "GHSA-vm5r-c87r-pf6x", "the client's address is taken from a header that any client can send"),
    Reference("L", "Directus 12", "proxies are trusted without being configured"),
    Reference("L", "parse-server#10237", "control characters in a response header"),
    Reference("N", "GHSA-p6h4-93qp-jhcm", "prototype pollution that leads to code execution"),
    Reference("N", "GHSA-462x-c3jw-7vr6", "prototype pollution through the database's parser"),
    Reference("N", "GHSA-prm5-8g2m-24gg", "prototype pollution through the database's parser"),
    Reference("N", "GHSA-q342-9w2p-57fp", "forbidden keys are accepted in nested objects"),
    Reference("N", "GHSA-9ccr", "prototype pollution"),
    Reference("N", "GHSA-93vw-8fm5-p2jf", "prototype pollution through the response of a hook"),
    Reference("N", "GHSA-xprv-wvh7-qqqx", "prototype pollution through the response of a hook"),
    Reference("P", "CVE-2025-48757", "tables that are publicly readable without the owner's knowledge"),
]

WITHOUT_A_PLACE = {
    "GHSA-7m6r-fhh7-r47c": "LDAP: Pilotis has no directory.",
    "GHSA-j7mm": "LiveQuery: Pilotis does not push changes to clients yet.",
    "GHSA-qpc3": "LiveQuery: Pilotis does not push changes to clients yet.",
    "GHSA-5hmj": "LiveQuery: Pilotis does not push changes to clients yet.",
    "GHSA-7ch5-98q2-7289": "LiveQuery: Pilotis does not push changes to clients yet.",
    "GHSA-fph2": "LiveQuery: Pilotis does not push changes to clients yet.",
    "GHSA-4hf6": "Recovery codes: there is no second factor.",
    "GHSA-2299": "Recovery codes: there is no second factor.",
    "GHSA-w73w": "One-time codes: there is no second factor.",
    "GHSA-fcv6-fg5r-jm9q": "Reading through a pointer: rows have no pointers to each other.",
}
"""References of the same classes that nothing here corresponds to, and why."""
