# Defines the library ParashardVersion. Each build asks git for the commit. Version.cpp is written only if the
# commit or the version has changed, so that a new commit compiles one file and links the tools again.
find_package(Git QUIET)
set(VERSION_SOURCE ${CMAKE_BINARY_DIR}/Version.cpp)
add_custom_target(ParashardCommit
  COMMAND ${CMAKE_COMMAND} -D "GIT=${GIT_EXECUTABLE}" -D SOURCE=${CMAKE_SOURCE_DIR} -D VERSION=${PROJECT_VERSION}
          -D OUT=${VERSION_SOURCE} -P ${CMAKE_SOURCE_DIR}/cmake/WriteVersion.cmake
  BYPRODUCTS ${VERSION_SOURCE}
  COMMENT "which commit is built?"
  VERBATIM)
add_library(ParashardVersion STATIC ${VERSION_SOURCE})
add_dependencies(ParashardVersion ParashardCommit)
