"""How figures are laid out, styled and labelled."""
