# The protobuf-c code of trireme.proto, made at build time; its warnings are not ours.
set(pb_dir "${CMAKE_BINARY_DIR}/generated/proto")
file(MAKE_DIRECTORY "${pb_dir}")
find_program(PROTOC_C NAMES protoc-c protoc REQUIRED) # newer releases of protobuf-c are a plug-in of protoc alone
add_custom_command(
  OUTPUT "${pb_dir}/trireme.pb-c.c" "${pb_dir}/trireme.pb-c.h"
  COMMAND "${PROTOC_C}" "--c_out=${pb_dir}" "-I${CMAKE_SOURCE_DIR}/proto" trireme.proto
  DEPENDS "${CMAKE_SOURCE_DIR}/proto/trireme.proto"
  VERBATIM)
list(APPEND FOLDER_SOURCES "${pb_dir}/trireme.pb-c.c")
set_source_files_properties("${pb_dir}/trireme.pb-c.c" PROPERTIES COMPILE_OPTIONS "-w")
set_source_files_properties("${CMAKE_SOURCE_DIR}/proto/codec_tables.c" PROPERTIES
  INCLUDE_DIRECTORIES "${pb_dir}" OBJECT_DEPENDS "${pb_dir}/trireme.pb-c.h")

# The structs, tables and checks of trireme.proto, made when the build is configured, which happens again when it changes: whoever sees
# proto/ finds them beside it.
find_program(AWK awk REQUIRED)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  "${CMAKE_SOURCE_DIR}/proto/trireme.proto" "${CMAKE_SOURCE_DIR}/proto/generate.awk")
foreach(header messages tables checks)
  execute_process(
    COMMAND "${AWK}" -v "want=${header}" -f "${CMAKE_SOURCE_DIR}/proto/generate.awk" "${CMAKE_SOURCE_DIR}/proto/trireme.proto"
    OUTPUT_FILE "${pb_dir}/wire_${header}.new"
    COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE "${pb_dir}/wire_${header}.h") # of an older build in this folder: codec_tables.c would find it first
  file(COPY_FILE "${pb_dir}/wire_${header}.new" "${CMAKE_BINARY_DIR}/include/proto/wire_${header}.h" ONLY_IF_DIFFERENT)
endforeach()
