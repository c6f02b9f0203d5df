import pytest

from shop.pricing import (
    NOTHING,
    Price,
    discount_percent,
    format_cents,
    line_price,
    percent_of,
)


@pytest.mark.parametrize(
    ("quantity", "percent"), [(1, 0), (9, 0), (10, 5), (49, 5), (50, 12)]
)
def test_a_discount_begins_at_its_quantity(catalogue, quantity, percent):
    assert discount_percent(catalogue, quantity) == percent


def test_shares_are_rounded_half_up():
    assert percent_of(50, 1) == 1
    assert percent_of(49, 1) == 0


def test_tax_is_on_the_discounted_price(catalogue):
    price = line_price(catalogue, catalogue.product("mug"), 10)
    assert price == Price(net_cents=8550, tax_cents=1625)
    assert price.gross_cents == 10175


def test_prices_add_up():
    assert Price(100, 19) + NOTHING + Price(50, 4) == Price(150, 23)


def test_a_line_without_pieces_is_an_error(catalogue):
    with pytest.raises(ValueError, match="at least one"):
        line_price(catalogue, catalogue.product("mug"), 0)


def test_amounts_have_two_decimals():
    assert format_cents(905, "EUR") == "9.05 EUR"
