list(APPEND SEE formats)
