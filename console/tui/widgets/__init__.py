"""One widget a file. Widgets paint from the picture; none of them asks the container anything."""
