list(APPEND SEE proto)
list(APPEND SEE model kernels formats text)
