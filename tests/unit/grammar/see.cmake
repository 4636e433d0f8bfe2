list(APPEND SEE text formats)
