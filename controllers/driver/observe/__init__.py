"""How the views of a node, a GPUDriver and a variant are cut, and the parts that they are made of."""
