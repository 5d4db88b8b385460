# Defines how unit tests are made: GoogleTest executables that ctest runs.
find_package(GTest REQUIRED)
include(GoogleTest)

# parashard_unit_test(NAME sources... [LINK libs...]): an executable of GoogleTest cases, run by ctest.
function(parashard_unit_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
