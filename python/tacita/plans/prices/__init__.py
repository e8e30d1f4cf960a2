"""What a plan costs on a machine: tables of measured prices, and the figures that follow from them."""
