# page.html as an array of bytes, so that the one program holds it.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/gateway/page.html")
file(READ "${CMAKE_SOURCE_DIR}/gateway/page.html" PAGE HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," PAGE "${PAGE}")
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/page_html.inc" CONTENT "${PAGE}\n" @ONLY)
set_source_files_properties("${CMAKE_SOURCE_DIR}/gateway/page.c" PROPERTIES INCLUDE_DIRECTORIES "${CMAKE_BINARY_DIR}/generated")
