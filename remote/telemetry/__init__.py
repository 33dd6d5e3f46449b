"""What the container's GPUs and shared memory say, change only, each value with its time or with why there is none."""
