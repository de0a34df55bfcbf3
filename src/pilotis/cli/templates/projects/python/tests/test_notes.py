"""`pilotis test` runs it against an app of its own."""

import os
import unittest

from pilotis_client import ApiError, Client

URL, KEY = os.environ["PILOTIS_URL"], os.environ["PILOTIS_PUBLIC_KEY"]


class Notes(unittest.TestCase):
    def test_a_note_belongs_to_its_author(self) -> None:
        with Client(URL, public_key=KEY) as ada, Client(URL, public_key=KEY) as bea:
            ada.members.guest()
            bea.members.guest()
            note = ada.rows("notes").create({"text": "mine"})
            with self.assertRaises(ApiError):
                bea.rows("notes").update(note.id, {"text": "taken"})
            self.assertEqual(bea.rows("notes").get(note.id).data["text"], "mine")
