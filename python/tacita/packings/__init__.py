"""Where tensor entries live in slots, as data, and the slot-linear maps between such layouts."""
