from pathlib import Path

import pytest

from shop.catalogue import CatalogueError, load_catalogue, parse_catalogue

HEAD = 'currency = "EUR"\ntax_percent = 19\n'


def test_the_catalogue_of_the_package_is_read(catalogue):
    assert catalogue.currency == "EUR"
    assert set(catalogue.products) == {"mug", "pot", "tea"}


def test_a_product_has_its_own_tax_or_the_common_one(catalogue):
    assert catalogue.product("mug").tax_percent == 19
    assert catalogue.product("tea").tax_percent == 7


def test_discounts_are_sorted_by_falling_quantity(catalogue):
    assert [discount.from_quantity for discount in catalogue.volume_discounts] == [
        50,
        10,
    ]


def test_a_file_of_ones_own_is_read(tmp_path: Path):
    own = tmp_path / "own.toml"
    own.write_text(
        HEAD + '[[products]]\nsku = "jar"\ntitle = "Jar"\nprice_cents = 100\n',
        encoding="utf-8",
    )
    assert load_catalogue(own).product("jar").stock == 0


@pytest.mark.parametrize(
    "products",
    [
        '[[products]]\nsku = "jar"\ntitle = "Jar"\nprice_cents = 0\n',
        '[[products]]\nsku = "jar"\ntitle = "Jar"\nprice_cents = 1\n' * 2,
    ],
)
def test_a_contradiction_is_an_error_that_names_the_product(products):
    with pytest.raises(CatalogueError, match="jar"):
        parse_catalogue(HEAD + products)
