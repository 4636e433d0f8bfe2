list(APPEND SEE proto)
list(APPEND TEST_LIBS trireme_fakes)
