"""Why a pod gets a card or a node or not: for the webhook, the queue, `kubectl gpu` and the console. Pure."""
