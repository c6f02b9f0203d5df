"""A cart: lines, their stock, their price, and the order they become."""

from dataclasses import dataclass, field

from shop.catalogue import Catalogue
from shop.inventory import Inventory
from shop.pricing import NOTHING, Price, line_price


@dataclass(frozen=True)
class Order:
    """What was bought, and for how much."""

    lines: dict[str, int]
    price: Price


@dataclass
class Cart:
    """One customer's cart; what lies in it is reserved."""

    id: str
    catalogue: Catalogue
    inventory: Inventory
    lines: dict[str, int] = field(default_factory=dict)

    def add(self, sku: str, quantity: int = 1) -> None:
        """Puts more pieces in; raises KeyError or OutOfStock and changes nothing."""
        if quantity < 1:
            raise ValueError("at least one piece is added")
        self.catalogue.product(sku)
        wanted = self.lines.get(sku, 0) + quantity
        self.inventory.reserve(sku, wanted, self.id)
        self.lines[sku] = wanted

    def remove(self, sku: str) -> None:
        """Takes a line out; a line that is not there is no error."""
        if self.lines.pop(sku, None) is not None:
            self.inventory.reserve(sku, 0, self.id)

    def price(self) -> Price:
        """What the cart costs now."""
        total = NOTHING
        for sku, quantity in self.lines.items():
            total += line_price(self.catalogue, self.catalogue.product(sku), quantity)
        return total

    def check_out(self) -> Order:
        """Ships the lines and empties the cart."""
        if not self.lines:
            raise ValueError("an empty cart is no order")
        price = self.price()
        order = Order(lines=self.inventory.ship(self.id), price=price)
        self.lines.clear()
        return order
