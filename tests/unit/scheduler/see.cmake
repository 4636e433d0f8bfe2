list(APPEND SEE proto)
