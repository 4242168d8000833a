"""What do the bytes mean? Layouts, arithmetic and kernels of RocketMQ's files; no I/O."""
