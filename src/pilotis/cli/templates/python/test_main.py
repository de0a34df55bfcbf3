"""Run it with `python -m unittest`."""

import unittest
from unittest.mock import MagicMock

from main import handler


class Greeting(unittest.IsolatedAsyncioTestCase):
    async def test_greets_by_name(self):
        self.assertEqual(await handler({"name": "Ada"}, MagicMock()), "Hello, Ada!")
        self.assertEqual(await handler({}, MagicMock()), "Hello, world!")
