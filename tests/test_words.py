"""Words that are gone stay gone: the word list of CONTRIBUTING, as far as a pattern can find its words."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXEMPT = {"CONTRIBUTING.md", "tests/test_words.py"}

GONE = {
    r"tall(y|ies)": "row count",
    r"Turns(?! [a-z])": "KeyedLocks",
    r"Merger|Merging": "Batcher",
    r"Sharing": "SingleFlight",
    r"Loan|lent": "acquire, release",
    r"[Ll]ets? go of": "release",
    r"Trashes|trashes": "trash",
    r"_?(most|MOST)_(?!common)[A-Za-z]\w*": "max_…",
    r"reap(s|ed|ing|_\w+)?": "expire",
    r"pour(s|ed|ing)?": "stream_to",
    r"zero_copy|zero-copy": "sendfile",
    r"making_way": "drop_blocking_index",
    r"[Kk]ept ready|kept_ready": "cached",
    r"is no column of": "The table has no column …",
    r"UseKind|UseRecorder": "AccessKind, AccessRecorder",
    r"[Rr]eseal(?!_rows)(ing|ed)?|[Uu]nseal(ed|ing)?|Sealer": "column migration, encrypt, decrypt",
    r"[Ff]or good(?! reason)": "permanently",
    r"anew": "again, re-…",
    r"hand(s|ed|ing|_)? ?out": "dispatch, grant",
    r"\w*(?<!FUNCTION)_AT_ONCE": "_BATCH_SIZE, _CONCURRENT_…",
    r"note_(use|seen)|NotedUse": "record_…",
    r"still_mine": "require_lease",
    r"look_again": "refresh_work_seq",
    r"give_back|given_back": "return_lane, release",
    r"ma(de|ke|king)_way": "drop_blocking_index",
    r"body_shape|shape_of_body": "body_schema",
    r"at fault": "invalid, failed",
    r"further ado": "by default",
    r"(un)?bur(y|ied|ies)": "mark_for_deletion, unmark, pending deletions",
    r"TableArmer|disarm(s|ed|ing)": "enable, disable_unused, set_emitted",
    r"keep_words|words_are_stored|forgiving(_whole)?|_patiently": "add_words, with_typos, _retry_while_locked",
    r"guess_(csv|json_lines)|insert_silently": "infer_…, insert_without_events",
    r"GrowingFile|FollowingDigest": "DraftFile, BackgroundDigest",
    r"give or take|takes? no notice|in vain": "varied by, ignores, without effect",
    r"look-ups?": "lookup",
}
PATTERN = re.compile(rf"(?<![A-Za-z])(?=[A-Za-z_])(?:{'|'.join(GONE)})(?![A-Za-z])")


def tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md", "*.js"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    own = [name for name in listed if name not in EXEMPT and "/vendor/" not in name]
    return [name for name in own if (ROOT / name).is_file()]


def test_words_that_are_gone_stay_gone() -> None:
    found = []
    for name in tracked():
        for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), 1):
            found += [f"{name}:{number}: {match[0]}" for match in PATTERN.finditer(line)]
    assert not found, "CONTRIBUTING says what to write instead."


def test_the_patterns_find_the_words() -> None:
    for word in (
        "tally",
        "Turns",
        "_MOST_TRIES",
        "most_rows",
        "poured",
        "reap_uploads",
        "kept ready",
        "for good",
        "hand_out",
    ):
        assert PATTERN.search(f"x {word}"), word
    for word in ("max_rows", "most_common_vals", "totally", "permitted", "silent", "report", "canewood"):
        assert not PATTERN.search(f"x {word}"), word
