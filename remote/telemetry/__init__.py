"""What the container's GPUs and shared memory say, each value with its time or with why there is none."""
