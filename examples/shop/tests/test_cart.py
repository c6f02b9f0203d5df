import pytest

from shop.cart import Cart
from shop.inventory import Inventory, OutOfStock
from shop.pricing import Price


@pytest.fixture
def cart(catalogue):
    return Cart("c1", catalogue, Inventory.of(catalogue))


def test_adding_twice_is_one_line(cart):
    cart.add("mug")
    cart.add("mug", 2)
    assert cart.lines == {"mug": 3}
    assert cart.inventory.free("mug") == 117


def test_a_cart_costs_the_sum_of_its_lines(cart):
    cart.add("pot")
    cart.add("tea", 2)
    assert cart.price() == Price(net_cents=3450 + 1250, tax_cents=656 + 88)


def test_more_than_the_stock_is_refused_and_the_cart_stays(cart):
    cart.add("pot", 8)
    with pytest.raises(OutOfStock):
        cart.add("pot")
    assert cart.lines == {"pot": 8}


def test_removing_a_line_frees_its_stock(cart):
    cart.add("pot", 8)
    cart.remove("pot")
    cart.remove("pot")
    assert cart.inventory.free("pot") == 8


def test_check_out_ships_and_empties(cart):
    cart.add("mug", 10)
    order = cart.check_out()
    assert order.lines == {"mug": 10}
    assert order.price.gross_cents == 10175
    assert cart.lines == {}
    assert cart.inventory.on_shelf["mug"] == 110


def test_an_empty_cart_is_no_order(cart):
    with pytest.raises(ValueError, match="empty"):
        cart.check_out()
