list(APPEND SEE proto gateway scheduler worker)
list(APPEND SEE model kernels formats text)
list(APPEND SEE http)
