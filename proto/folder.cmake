# The protobuf-c code of trireme.proto, made at build time; its warnings are not ours.
set(pb_dir "${CMAKE_BINARY_DIR}/generated/proto")
file(MAKE_DIRECTORY "${pb_dir}")
find_program(PROTOC_C protoc-c REQUIRED)
add_custom_command(
  OUTPUT "${pb_dir}/trireme.pb-c.c" "${pb_dir}/trireme.pb-c.h"
  COMMAND "${PROTOC_C}" "--c_out=${pb_dir}" "-I${CMAKE_SOURCE_DIR}/proto" trireme.proto
  DEPENDS "${CMAKE_SOURCE_DIR}/proto/trireme.proto"
  VERBATIM)
list(APPEND FOLDER_SOURCES "${pb_dir}/trireme.pb-c.c")
set_source_files_properties("${pb_dir}/trireme.pb-c.c" PROPERTIES COMPILE_OPTIONS "-w")
set_source_files_properties("${CMAKE_SOURCE_DIR}/proto/codec_tables.c" PROPERTIES
  INCLUDE_DIRECTORIES "${pb_dir}" OBJECT_DEPENDS "${pb_dir}/trireme.pb-c.h")
