"""Search: two query languages, one syntax tree, one reader that answers from the mirror."""
