"""Files of others that stand in this repository as they are published: the console's JavaScript, and axe for tests."""
