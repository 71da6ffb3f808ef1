"""The counter of the repository and the rules of the house: `scripts/house` and `test_house.py`."""
