"""Every listed vulnerability has a test, and every test's reference is listed."""

import subprocess
import sys
from pathlib import Path

from tools.advisory_table import marked_tests

from tests.security.references import CLASSES, REFERENCES, WITHOUT_A_PLACE

ROOT = Path(__file__).parents[2]


def test_every_reference_has_a_test() -> None:
    tests = marked_tests()
    assert [known.reference for known in REFERENCES if known.reference not in tests] == []


def test_every_mark_names_a_known_reference() -> None:
    known = {one.reference for one in REFERENCES}
    assert set(marked_tests()) - known == set()


def test_the_list_is_in_order() -> None:
    references = [one.reference for one in REFERENCES]
    assert len(set(references)) == len(references)
    assert not set(references) & WITHOUT_A_PLACE.keys()
    assert [class_ for class_ in CLASSES if class_ not in {one.class_ for one in REFERENCES}] == []
    assert {one.class_ for one in REFERENCES} <= CLASSES.keys()


def test_the_table_is_the_one_of_the_tests() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "advisory_table.py"), "--check"])
    assert done.returncode == 0, "Run tools/advisory_table.py and commit docs/design/threats.md."
