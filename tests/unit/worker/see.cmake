list(APPEND SEE proto kernels model grammar formats text)
