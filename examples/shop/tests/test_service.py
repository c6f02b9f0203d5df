import json
import threading
import urllib.error
import urllib.request

import pytest

from shop.service import make_server


@pytest.fixture
def address(catalogue):
    with make_server(0, catalogue) as server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(url, data=data, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def test_products_are_listed(address):
    status, content = ask(f"{address}/products")
    assert status == 200
    assert [product["sku"] for product in content["products"]] == ["mug", "pot", "tea"]


def test_one_product_is_shown_with_its_price(address):
    assert ask(f"{address}/products/pot")[1]["price"] == "34.50 EUR"


@pytest.mark.parametrize("path", ["/", "/products/cup", "/orders"])
def test_what_is_not_there_is_404(address, path):
    assert ask(address + path)[0] == 404


def test_a_quote_has_net_tax_and_gross(address):
    status, content = ask(f"{address}/quotes", {"items": {"mug": 10}})
    assert status == 200
    assert content == {"net": "85.50 EUR", "tax": "16.25 EUR", "gross": "101.75 EUR"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"items": {"pot": 9}}, 409),
        ({"items": {"cup": 1}}, 400),
        ({"items": 3}, 400),
        ([], 400),
    ],
)
def test_a_quote_that_cannot_be_given_says_why(address, body, status):
    found, content = ask(f"{address}/quotes", body)
    assert found == status
    assert content["error"]
