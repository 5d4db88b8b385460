# Defines the files that `cmake --install` copies: tools with manual pages and completions, the
# runtime libraries that ps-compile links into programs, the C API with its CMake package, and docs.
# The installed folder may be moved: ps-compile finds the runtime relative to its own path
# (../lib/parashard), and installed files do not refer to the build folder.
include(CMakePackageConfigHelpers)

set(PARASHARD_RUNTIME psrt_main psrt psrt_data psrt_comm_process psrt_bootstrap psrt_comm_local psrt_device_cpu
  psrt_device_cuda psrt_cuda_kernels psrt_core psrt_builtins)
install(TARGETS ${PARASHARD_RUNTIME} ARCHIVE DESTINATION lib/parashard)
if(TARGET psrt_comm_mpi)
  install(TARGETS psrt_comm_mpi LIBRARY DESTINATION lib/parashard)
endif()

# The C API, for find_package(Parashard): the targets Parashard::psrt and Parashard::ps-compile.
set_target_properties(psrt_shared PROPERTIES EXPORT_NAME psrt)
install(TARGETS psrt_shared EXPORT ParashardTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/psrt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(PARASHARD_PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/Parashard)
configure_package_config_file(cmake/ParashardConfig.cmake.in ParashardConfig.cmake INSTALL_DESTINATION ${PARASHARD_PACKAGE})
write_basic_package_version_file(ParashardConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ParashardConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/ParashardConfigVersion.cmake
  DESTINATION ${PARASHARD_PACKAGE})
install(EXPORT ParashardTargets NAMESPACE Parashard:: DESTINATION ${PARASHARD_PACKAGE})

# parashard_help_pages(TOOL): generates the manual page and the completions of a tool from its
# --help. They are built together with the tool.
function(parashard_help_pages tool)
  set(pages ${CMAKE_BINARY_DIR}/share/man/man1/${tool}.1 ${CMAKE_BINARY_DIR}/share/bash-completion/completions/${tool}
    ${CMAKE_BINARY_DIR}/share/zsh/site-functions/_${tool})
  add_custom_command(OUTPUT ${pages}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/help_pages.py ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${tool} ${PROJECT_VERSION}
            ${CMAKE_BINARY_DIR}/share
    DEPENDS ${tool} ${CMAKE_SOURCE_DIR}/cmake/help_pages.py
    COMMENT "help pages of ${tool}" VERBATIM)
  add_custom_target(${tool}-help ALL DEPENDS ${pages})
endfunction()

install(TARGETS psrt-probe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(PARASHARD_ENABLE_COMPILER)
  set(PARASHARD_INSTALLED_TOOLS ps-compile ps-opt ps-run ps-timeline ps-translate)
  install(TARGETS ${PARASHARD_INSTALLED_TOOLS} EXPORT ParashardTargets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/ps-plan DESTINATION ${CMAKE_INSTALL_BINDIR}) # a link
  install(TARGETS parashard_lld RUNTIME DESTINATION lib/parashard)
  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_FOUND)
    foreach(tool ${PARASHARD_INSTALLED_TOOLS} ps-plan psrt-probe)
      parashard_help_pages(${tool})
    endforeach()
    install(DIRECTORY ${CMAKE_BINARY_DIR}/share/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
    install(DIRECTORY ${CMAKE_BINARY_DIR}/share/bash-completion ${CMAKE_BINARY_DIR}/share/zsh
      DESTINATION ${CMAKE_INSTALL_DATAROOTDIR})
  else()
    message(STATUS "Python 3 not found: manual pages and completions are not generated")
  endif()
endif()
# README.md and docs link to these files, so that they are installed too.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING
  PATTERN "*.py" PATTERN "*.c" PATTERN "*.pt2")
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")
