# Defines what `cmake --install` copies: tools, the runtime that they link programs with, the C API, headers and docs.
# An installed ps-compile finds the runtime relative to itself (../lib/parashard); nothing refers to the build.
set(PARASHARD_RUNTIME psrt_main psrt psrt_data psrt_comm_process psrt_bootstrap psrt_comm_local psrt_device_cpu
  psrt_device_cuda psrt_cuda_kernels psrt_core psrt_builtins)
install(TARGETS ${PARASHARD_RUNTIME} ARCHIVE DESTINATION lib/parashard)
if(TARGET psrt_comm_mpi)
  install(TARGETS psrt_comm_mpi LIBRARY DESTINATION lib/parashard)
endif()
install(TARGETS psrt_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/psrt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(PARASHARD_ENABLE_COMPILER)
  install(TARGETS ps-compile ps-opt ps-run ps-timeline ps-translate RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY include/parashard include/shared DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
