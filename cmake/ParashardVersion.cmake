# Defines the library ParashardVersion. Each build reads the current commit from git. Version.cpp is
# written only if the commit or the version has changed. After a new commit, a build therefore
# recompiles only this file, and relinks the tools.
find_package(Git QUIET)
set(VERSION_SOURCE ${CMAKE_BINARY_DIR}/Version.cpp)
add_custom_target(ParashardCommit
  COMMAND ${CMAKE_COMMAND} -D "GIT=${GIT_EXECUTABLE}" -D SOURCE=${CMAKE_SOURCE_DIR} -D VERSION=${PROJECT_VERSION}
          -D OUT=${VERSION_SOURCE} -P ${CMAKE_SOURCE_DIR}/cmake/WriteVersion.cmake
  BYPRODUCTS ${VERSION_SOURCE}
  COMMENT "read the commit from git"
  VERBATIM)
add_library(ParashardVersion STATIC ${VERSION_SOURCE})
add_dependencies(ParashardVersion ParashardCommit)
