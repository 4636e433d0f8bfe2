list(APPEND SEE proto kernels model formats text)
