list(APPEND TEST_LIBS PkgConfig::ZMQ PkgConfig::PROTOBUF_C Threads::Threads)
