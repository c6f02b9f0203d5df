import pytest

from shop.catalogue import Catalogue, load_catalogue


@pytest.fixture
def catalogue() -> Catalogue:
    return load_catalogue()
