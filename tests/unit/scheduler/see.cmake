list(APPEND SEE proto http)
list(APPEND TEST_LIBS trireme_fakes PkgConfig::ZMQ)
