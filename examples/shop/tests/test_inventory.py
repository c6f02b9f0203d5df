import pytest

from shop.inventory import Inventory, OutOfStock


@pytest.fixture
def inventory():
    return Inventory({"mug": 10})


def test_reserved_pieces_are_not_free(inventory):
    inventory.reserve("mug", 4, "ann")
    assert inventory.free("mug") == 6


def test_a_reservation_is_replaced_not_added_to(inventory):
    inventory.reserve("mug", 8, "ann")
    inventory.reserve("mug", 9, "ann")
    assert inventory.free("mug") == 1


def test_too_much_is_refused_and_changes_nothing(inventory):
    inventory.reserve("mug", 4, "ann")
    with pytest.raises(OutOfStock) as refused:
        inventory.reserve("mug", 7, "bob")
    assert refused.value.free == 6
    assert inventory.free("mug") == 6


def test_shipping_takes_pieces_off_the_shelf(inventory):
    inventory.reserve("mug", 4, "ann")
    assert inventory.ship("ann") == {"mug": 4}
    assert (inventory.on_shelf["mug"], inventory.free("mug")) == (6, 6)


def test_released_pieces_are_free_again(inventory):
    inventory.reserve("mug", 10, "ann")
    inventory.release("ann")
    assert inventory.free("mug") == 10
