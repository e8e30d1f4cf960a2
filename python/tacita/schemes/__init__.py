"""The schemes as objects: how each plans, estimates and answers, behind one contract (`base.Scheme`)."""
