# Finds MLIR and defines how the compiler's libraries and tools are made.
find_package(MLIR REQUIRED CONFIG PATHS /usr/lib/llvm-${PARASHARD_LLVM_VERSION} NO_DEFAULT_PATH)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS}) # read by mlir-tblgen too
set(PARASHARD_LLVM_TOOLS_DIR ${LLVM_TOOLS_BINARY_DIR})
# mlir-tblgen takes its include path from the directory, not from targets.
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})

# One precompiled header for the whole compiler: headers of MLIR and the classes of the ops.
if(PARASHARD_ENABLE_PCH)
  add_library(ParashardPch STATIC ${CMAKE_SOURCE_DIR}/cmake/Pch.cpp)
  target_include_directories(ParashardPch SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_precompile_headers(ParashardPch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/Pch.h)
  add_dependencies(ParashardPch PsIncGen RankIncGen)
endif()

# parashard_library(NAME sources... [LINK libs...] [DEPENDS targets...])
# A compiler library: static, MLIR's headers as system headers, the shared libMLIR and libLLVM.
function(parashard_library name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  if(PARASHARD_ENABLE_PCH)
    target_precompile_headers(${name} REUSE_FROM ParashardPch)
  endif()
  set_property(GLOBAL APPEND PROPERTY PARASHARD_LIBRARIES ${name})
endfunction()

# parashard_use_pch(NAME): an executable takes the libraries' precompiled header. It is compiled as they are: clang
# refuses a header that was made with -fPIC where CMake says -fPIE.
function(parashard_use_pch name)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM ParashardPch)
endfunction()

# parashard_tool(NAME sources... [LINK libs...]): an executable in bin/.
function(parashard_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} ParashardVersion MLIR LLVM)
  if(PARASHARD_ENABLE_PCH)
    parashard_use_pch(${name})
  endif()
endfunction()
