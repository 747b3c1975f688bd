"""A package, so that the browser and its event loop end with these tests."""
