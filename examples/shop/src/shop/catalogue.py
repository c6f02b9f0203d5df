"""The catalogue: what is sold, read from a TOML file."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path


class CatalogueError(ValueError):
    """The catalogue file says something that cannot be sold."""


@dataclass(frozen=True)
class Product:
    """One article."""

    sku: str
    title: str
    price_cents: int
    tax_percent: int
    stock: int


@dataclass(frozen=True)
class VolumeDiscount:
    """`percent` off a line of at least `from_quantity` pieces."""

    from_quantity: int
    percent: int


@dataclass(frozen=True)
class Catalogue:
    """All products by SKU, and the rules that hold for all of them."""

    currency: str
    products: dict[str, Product]
    volume_discounts: tuple[VolumeDiscount, ...]  # largest quantity first

    def product(self, sku: str) -> Product:
        """Looks a product up; KeyError names the SKU."""
        return self.products[sku]


def parse_catalogue(text: str) -> Catalogue:
    """Reads a catalogue; raises CatalogueError where it contradicts itself."""
    raw = tomllib.loads(text)
    default_tax = int(raw["tax_percent"])
    products: dict[str, Product] = {}
    for entry in raw["products"]:
        product = Product(
            sku=entry["sku"],
            title=entry["title"],
            price_cents=entry["price_cents"],
            tax_percent=entry.get("tax_percent", default_tax),
            stock=entry.get("stock", 0),
        )
        if product.price_cents <= 0:
            raise CatalogueError(f"{product.sku}: a price is more than nothing")
        if product.sku in products:
            raise CatalogueError(f"{product.sku}: listed twice")
        products[product.sku] = product
    discounts = [
        VolumeDiscount(from_quantity=entry["from_quantity"], percent=entry["percent"])
        for entry in raw.get("volume_discounts", [])
    ]
    discounts.sort(key=lambda discount: discount.from_quantity, reverse=True)
    return Catalogue(
        currency=raw["currency"], products=products, volume_discounts=tuple(discounts)
    )


def load_catalogue(path: Path | None = None) -> Catalogue:
    """Reads the catalogue at a path, or the one that comes with the package."""
    if path is not None:
        return parse_catalogue(path.read_text(encoding="utf-8"))
    return parse_catalogue(
        files("shop").joinpath("catalogue.toml").read_text(encoding="utf-8")
    )
