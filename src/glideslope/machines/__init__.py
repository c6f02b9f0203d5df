"""Pure decisions: a state and a fact give the next state and the orders."""
