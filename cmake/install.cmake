# cmake --install: the program, systemd units, manual pages, completions for shells, documentation. What names the program's place, and
# what the program writes of itself, is made while it is installed, so that --prefix may still choose.
include(GNUInstallDirs)
install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES LICENSE README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB pages CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/docs/*.md")
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(FILES deploy/systemd/serve.yaml DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
# A cross-built program writes its pages under an emulator.
install(CODE "
  execute_process(COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} \"$<TARGET_FILE:trireme>\" help --files
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\" COMMAND_ERROR_IS_FATAL ANY)
  set(BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  file(READ \"${CMAKE_SOURCE_DIR}/deploy/systemd/common.conf\" common)
  foreach(unit trireme trireme-gateway trireme-scheduler trireme-worker@)
    file(READ \"${CMAKE_SOURCE_DIR}/deploy/systemd/\${unit}.service.in\" text)
    string(REPLACE \"{{BINDIR}}\" \"\${BINDIR}\" text \"\${text}\")
    string(REPLACE \"# {{COMMON}}\\n\" \"\${common}\" text \"\${text}\")
    file(WRITE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/systemd/system/\${unit}.service\" \"\${text}\")
  endforeach()
")
