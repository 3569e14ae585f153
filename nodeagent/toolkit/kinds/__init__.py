"""The kinds of container runtimes: how each is told of handlers, and how one sees what it runs with."""
