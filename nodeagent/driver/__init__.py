"""nodeagent driver: looks at a node before a driver comes onto it (`look`), and clears the way for it (`prepare`).

Neither talks to the API server. What they found is one line of JSON in the container's termination message
(`controllers.api.driver_look`), and whose fault it is stands in the exit code; what follows is decided elsewhere.
"""
