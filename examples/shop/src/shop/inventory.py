"""Stock: what is there, what is reserved, and by whom."""

from dataclasses import dataclass, field

from shop.catalogue import Catalogue


class OutOfStock(Exception):
    """Fewer pieces are free than were asked for."""

    def __init__(self, sku: str, asked: int, free: int) -> None:
        super().__init__(f"{sku}: {asked} asked for, {free} free")
        self.sku = sku
        self.free = free


@dataclass
class Inventory:
    """Pieces on the shelf, and reservations on them that expire by being released."""

    on_shelf: dict[str, int]
    reserved: dict[str, dict[str, int]] = field(
        default_factory=dict
    )  # SKU -> holder -> pieces

    @classmethod
    def of(cls, catalogue: Catalogue) -> "Inventory":
        """A fresh inventory with the catalogue's stock."""
        return cls({sku: product.stock for sku, product in catalogue.products.items()})

    def free(self, sku: str) -> int:
        """Pieces that nobody has reserved."""
        return self.on_shelf.get(sku, 0) - sum(self.reserved.get(sku, {}).values())

    def reserve(self, sku: str, quantity: int, holder: str) -> None:
        """Sets what a holder has reserved of one SKU; raises OutOfStock and changes nothing."""
        holders = self.reserved.setdefault(sku, {})
        free = self.free(sku) + holders.get(holder, 0)
        if quantity > free:
            raise OutOfStock(sku, quantity, free)
        holders[holder] = quantity

    def release(self, holder: str) -> None:
        """Gives everything back that a holder has reserved."""
        for holders in self.reserved.values():
            holders.pop(holder, None)

    def ship(self, holder: str) -> dict[str, int]:
        """Takes a holder's reservations off the shelf; returns what was taken."""
        shipped: dict[str, int] = {}
        for sku, holders in self.reserved.items():
            quantity = holders.pop(holder, 0)
            if quantity:
                self.on_shelf[sku] -= quantity
                shipped[sku] = quantity
        return shipped
