"""The screen: widgets paint a picture of the container, threads fill it, the operations layer acts."""
