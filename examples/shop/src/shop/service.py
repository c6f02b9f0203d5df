"""The shop over HTTP: JSON in, JSON out, standard library only.

GET /products            everything that is sold
GET /products/SKU        one product
POST /quotes             {"items": {"SKU": quantity}} -> what that would cost
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shop.cart import Cart
from shop.catalogue import Catalogue, Product, load_catalogue
from shop.inventory import Inventory, OutOfStock
from shop.pricing import format_cents

Answer = tuple[int, dict[str, Any]]


def show_product(catalogue: Catalogue, product: Product) -> dict[str, Any]:
    """A product as clients see it."""
    return {
        "sku": product.sku,
        "title": product.title,
        "price": format_cents(product.price_cents, catalogue.currency),
    }


def get(catalogue: Catalogue, path: str) -> Answer:
    """Answers a GET."""
    match path.strip("/").split("/"):
        case ["products"]:
            return 200, {
                "products": [
                    show_product(catalogue, each)
                    for each in catalogue.products.values()
                ]
            }
        case ["products", sku] if sku in catalogue.products:
            return 200, show_product(catalogue, catalogue.product(sku))
        case _:
            return 404, {"error": f"nothing at {path}"}


def quote(catalogue: Catalogue, body: bytes) -> Answer:
    """Prices a list of items without reserving anything for longer than the question."""
    try:
        items = json.loads(body)["items"]
        cart = Cart("quote", catalogue, Inventory.of(catalogue))
        for sku, quantity in items.items():
            cart.add(sku, int(quantity))
    except OutOfStock as short:
        return 409, {"error": str(short)}
    except KeyError as missing:
        return 400, {"error": f"unknown: {missing.args[0]}"}
    except (ValueError, TypeError, AttributeError) as wrong:
        return 400, {"error": f"not a list of items: {wrong}"}
    price = cart.price()
    return 200, {
        "net": format_cents(price.net_cents, catalogue.currency),
        "tax": format_cents(price.tax_cents, catalogue.currency),
        "gross": format_cents(price.gross_cents, catalogue.currency),
    }


class Handler(BaseHTTPRequestHandler):
    """One request."""

    catalogue: Catalogue

    def do_GET(self) -> None:
        self._send(*get(self.catalogue, self.path))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/quotes":
            self._send(*quote(self.catalogue, body))
        else:
            self._send(404, {"error": f"nothing at {self.path}"})

    def _send(self, status: int, content: dict[str, Any]) -> None:
        payload = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


def make_server(port: int, catalogue: Catalogue) -> ThreadingHTTPServer:
    """A server on the loopback interface, not yet serving; port 0 takes a free one."""
    handler = type("ShopHandler", (Handler,), {"catalogue": catalogue})
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


def main() -> None:
    """Serves until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    with make_server(parser.parse_args().port, load_catalogue()) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}/products")
        server.serve_forever()


if __name__ == "__main__":
    main()
