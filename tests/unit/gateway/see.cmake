list(APPEND SEE text http formats proto)
list(APPEND TEST_LIBS PkgConfig::ZMQ PkgConfig::PROTOBUF_C PkgConfig::LIBEVENT PkgConfig::CJSON Threads::Threads m)
