# Defines functions that add unit tests: GoogleTest executables that ctest runs. The default target
# does not build tests, fakes, benchmarks and fuzz targets; `--target tests` builds them.
if(PARASHARD_ENABLE_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# A precompiled header, shared by the unit tests of the runtime.
if(PARASHARD_ENABLE_TESTS AND PARASHARD_ENABLE_PCH)
  add_executable(psrt-test-pch EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/cmake/Pch.cpp)
  target_link_libraries(psrt-test-pch PRIVATE GTest::gtest_main)
  target_precompile_headers(psrt-test-pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/TestPch.h)
endif()

# parashard_unit_test(NAME sources... [LINK libs...]): adds an executable of GoogleTest cases, which
# ctest runs.
function(parashard_unit_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  string(FIND ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/runtime/ AT)
  if(PARASHARD_ENABLE_PCH AND AT EQUAL 0)
    target_precompile_headers(${name} REUSE_FROM psrt-test-pch)
  elseif(PARASHARD_ENABLE_PCH)
    parashard_use_pch(${name})
  endif()
endfunction()

# parashard_list_targets(VARIABLE FOLDER): sets VARIABLE to the targets of FOLDER and its
# subfolders.
function(parashard_list_targets variable folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(inner ${folders})
    parashard_list_targets(further ${inner})
    list(APPEND targets ${further})
  endforeach()
  set(${variable} ${targets} PARENT_SCOPE)
endfunction()

# Defines the target `tests`, which builds all targets of the folders that the default target
# excludes.
function(parashard_tests_target)
  add_custom_target(tests)
  foreach(folder runtime/testing runtime/conformance runtime/device/cuda/kernels/test test fuzz bench)
    if(EXISTS ${CMAKE_BINARY_DIR}/${folder})
      parashard_list_targets(targets ${CMAKE_SOURCE_DIR}/${folder})
      foreach(target ${targets})
        get_target_property(type ${target} TYPE)
        if(type MATCHES "EXECUTABLE|LIBRARY" AND NOT type STREQUAL "INTERFACE_LIBRARY")
          add_dependencies(tests ${target})
        endif()
      endforeach()
    endif()
  endforeach()
endfunction()
