"""What a line costs: volume discounts, then tax, in whole cents."""

from dataclasses import dataclass

from shop.catalogue import Catalogue, Product


@dataclass(frozen=True)
class Price:
    """Net, tax and gross of something, in cents."""

    net_cents: int
    tax_cents: int

    @property
    def gross_cents(self) -> int:
        return self.net_cents + self.tax_cents

    def __add__(self, other: "Price") -> "Price":
        return Price(self.net_cents + other.net_cents, self.tax_cents + other.tax_cents)


NOTHING = Price(0, 0)


def percent_of(cents: int, percent: int) -> int:
    """A share of an amount, rounded half up."""
    return (cents * percent + 50) // 100


def discount_percent(catalogue: Catalogue, quantity: int) -> int:
    """The discount that a line of this many pieces gets, 0 for none."""
    for discount in catalogue.volume_discounts:
        if quantity >= discount.from_quantity:
            return discount.percent
    return 0


def line_price(catalogue: Catalogue, product: Product, quantity: int) -> Price:
    """Prices one line of a cart."""
    if quantity < 1:
        raise ValueError("a line has at least one piece")
    full = product.price_cents * quantity
    net = full - percent_of(full, discount_percent(catalogue, quantity))
    return Price(net_cents=net, tax_cents=percent_of(net, product.tax_percent))


def format_cents(cents: int, currency: str) -> str:
    """1234 becomes `12.34 EUR`."""
    return f"{cents // 100}.{cents % 100:02d} {currency}"
