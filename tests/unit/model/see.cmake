list(APPEND SEE kernels formats)
