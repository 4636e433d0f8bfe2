list(APPEND SEE text http grammar formats proto)
list(APPEND TEST_LIBS PkgConfig::ZMQ PkgConfig::PROTOBUF_C PkgConfig::LIBEVENT PkgConfig::CJSON Threads::Threads m)

# A scheduler and workers in one, over a real link (also of bench/gateway).
if(NOT TARGET gateway_fake)
  add_library(gateway_fake STATIC ${CMAKE_SOURCE_DIR}/bench/gateway/fake_scheduler.c)
  trireme_see(gateway_fake proto text base)
  target_include_directories(gateway_fake PUBLIC ${CMAKE_SOURCE_DIR}/bench/gateway)
endif()
list(APPEND TEST_LIBS gateway_fake)
