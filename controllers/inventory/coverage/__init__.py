"""gpu-nfd-coverage: whether nodes are labelled and cards recorded as the reports of NFD and our agents ask for.

read.py asks the API server, compare.py decides, text.py and __main__.py tell people and CI.
"""
