"""Role mig-manager: makes the node's MIG layout come true, card by card, and says so in `migApply`.

Every pool with MIG cards on a node runs one, and all of them do the same: each follows the layout of the whole
node, and one at a time acts on it (`lock`). `plan` decides, `work` carries out and puts back what fails.
"""
