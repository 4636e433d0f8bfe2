list(APPEND SEE cli scheduler proto)
