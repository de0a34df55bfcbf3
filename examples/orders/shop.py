"""A shop: takes orders, and shows what has become of them. The orders are rows of a table.

    python3 examples/orders/shop.py --public-key pk_… table
    python3 examples/orders/shop.py --public-key pk_… order TABLE tea 2
    python3 examples/orders/shop.py --public-key pk_… list TABLE

Needs Python 3.11 only. See README.md beside this file.
"""

import argparse
import json
import urllib.request
from typing import Any


class Shop:
    """The app's tables, as whoever has the public key sees them."""

    def __init__(self, url: str, public_key: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"X-Public-Key": public_key, "Content-Type": "application/json"}

    def create_table(self) -> str:
        """Create the table of orders and return its id."""
        schema = {"item": "string", "quantity": "int", "status": {"type": "string", "default": "new"}}
        body = {"title": "orders", "schema": schema, "access_level": "Public"}
        table_id: str = self._call("POST", "/v1/public/tables", body)["id"]
        return table_id

    def order(self, table_id: str, item: str, quantity: int) -> str:
        """Place an order and return its id."""
        body = {"data": {"item": item, "quantity": quantity}}
        order_id: str = self._call("POST", f"/v1/public/tables/{table_id}/data", body)["id"]
        return order_id

    def orders(self, table_id: str) -> list[dict[str, Any]]:
        """Return the orders, each with `id` and `data`."""
        page: dict[str, Any] = self._call("GET", f"/v1/public/tables/{table_id}/data?limit=100")
        orders: list[dict[str, Any]] = page["data"]
        return orders

    def _call(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, self._headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8090", help="where Pilotis is (default: %(default)s)")
    parser.add_argument("--public-key", required=True, help="the app's public key, pk_…")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table", help="create the table of orders and print its id")
    order = commands.add_parser("order", help="place an order and print its id")
    order.add_argument("table")
    order.add_argument("item")
    order.add_argument("quantity", type=int, nargs="?", default=1)
    commands.add_parser("list", help="show the orders").add_argument("table")
    arguments = parser.parse_args()

    shop = Shop(arguments.url, arguments.public_key)
    if arguments.command == "table":
        print(shop.create_table())
    elif arguments.command == "order":
        print(shop.order(arguments.table, arguments.item, arguments.quantity))
    else:
        for row in shop.orders(arguments.table):
            print(f"{row['id']}  {row['data']['quantity']:3} × {row['data']['item']:20} {row['data']['status']}")


if __name__ == "__main__":
    main()
