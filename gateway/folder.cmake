# The page: its files, and those libraries of page/libraries.txt that are here, as arrays of bytes in the one program.
# TRIREME_PAGE_LIBRARIES holds their archives, as `./dev` fetches them; without all of them the page is plain.
set(TRIREME_PAGE_LIBRARIES "${CMAKE_SOURCE_DIR}/build/page" CACHE PATH "archives of the page's libraries; empty: a plain page")

function(embed_page) # sets PAGE_FILES
  set(page "${CMAKE_SOURCE_DIR}/gateway/page")
  set(generated "${CMAKE_BINARY_DIR}/generated/page")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${page}/libraries.txt")

  # An archive is missing when it is not here or not what its hash says.
  file(STRINGS "${page}/libraries.txt" libraries REGEX "^[^#]")
  set(missing "")
  set(library_files "")
  set(licences "")
  foreach(library IN LISTS libraries)
    separate_arguments(library UNIX_COMMAND "${library}")
    list(GET library 0 name)
    list(GET library 1 version)
    list(GET library 2 archive)
    list(GET library 3 hash)
    list(GET library 4 inside)
    list(GET library 5 file)
    set(path "${TRIREME_PAGE_LIBRARIES}/${archive}-${version}.tgz")
    set(found "")
    if(EXISTS "${path}")
      file(SHA512 "${path}" found)
    endif()
    if(NOT found STREQUAL hash)
      list(APPEND missing "${name}")
      continue()
    endif()
    file(ARCHIVE_EXTRACT INPUT "${path}" DESTINATION "${generated}/${archive}"
         PATTERNS "package/${inside}" package/LICENSE)
    file(COPY_FILE "${generated}/${archive}/package/${inside}" "${generated}/${file}" ONLY_IF_DIFFERENT)
    file(READ "${generated}/${archive}/package/LICENSE" licence)
    string(APPEND licences "${name} ${version}\n\n${licence}\n\n")
    list(APPEND library_files "lib/${file}=${generated}/${file}")
  endforeach()

  file(GLOB page_files CONFIGURE_DEPENDS RELATIVE "${page}"
       "${page}/*.html" "${page}/*.css" "${page}/*.js" "${page}/*.svg")
  list(REMOVE_ITEM page_files plain.js)
  list(TRANSFORM page_files REPLACE "(.+)" "\\1=${page}/\\1")
  if(missing)
    list(JOIN missing ", " names)
    message(STATUS "The page is plain: without ${names}")
    list(REMOVE_ITEM page_files "libraries.js=${page}/libraries.js")
    list(APPEND page_files "libraries.js=${page}/plain.js")
    set(library_files "")
    set(licences "This page holds no library.\n")
  endif()
  file(CONFIGURE OUTPUT "${generated}/licences.txt" CONTENT "@licences@" @ONLY)
  list(APPEND page_files ${library_files} "licences.txt=${generated}/licences.txt")

  list(TRANSFORM page_files REPLACE "^[^=]*=" "" OUTPUT_VARIABLE page_sources)
  find_program(GZIP gzip)
  add_custom_command(
    OUTPUT "${generated}/page_files.inc"
    COMMAND "${CMAKE_COMMAND}" "-DFILES=${page_files}" "-DGZIP=${GZIP}" "-DOUTPUT=${generated}/page_files.inc" -P "${page}/embed.cmake"
    DEPENDS ${page_sources} "${page}/embed.cmake"
    COMMENT "Embedding the page"
    VERBATIM)
  set_source_files_properties("${CMAKE_SOURCE_DIR}/gateway/page/page.c" PROPERTIES
    INCLUDE_DIRECTORIES "${generated}" OBJECT_DEPENDS "${generated}/page_files.inc")
  set(PAGE_FILES "${generated}/page_files.inc" PARENT_SCOPE)
endfunction()

embed_page()
list(APPEND FOLDER_SOURCES "${PAGE_FILES}")
