# Finds MLIR, and defines functions that add the compiler's libraries and tools.
find_package(MLIR REQUIRED CONFIG PATHS /usr/lib/llvm-${PARASHARD_LLVM_VERSION} NO_DEFAULT_PATH)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS}) # read by mlir-tblgen too
set(PARASHARD_LLVM_TOOLS_DIR ${LLVM_TOOLS_BINARY_DIR})
# mlir-tblgen takes its include path from the directory, not from targets.
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})

# ParashardLLVM has MLIR and LLVM: as archives for the targets with the property PARASHARD_IS_TOOL, and
# as shared libraries for all others. A tool with archives starts in a quarter of the time. The archives
# are listed by path, because the CMake targets of the components refer to the shared library in
# Debian's build.
add_library(ParashardLLVM INTERFACE)
file(GLOB archives ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
find_library(ZSTD_ARCHIVE libzstd.a)
find_library(ZLIB_ARCHIVE libz.a)
set(has_archives OFF)
if(archives MATCHES "libMLIRIR.a" AND archives MATCHES "libLLVMCore.a" AND ZSTD_ARCHIVE AND ZLIB_ARCHIVE)
  set(has_archives ON)
endif()
option(PARASHARD_STATIC_LLVM "Link the tools with the archives of MLIR and LLVM" ${has_archives})
if(PARASHARD_STATIC_LLVM AND NOT has_archives)
  message(FATAL_ERROR "PARASHARD_STATIC_LLVM: the archives of MLIR and LLVM (${LLVM_LIBRARY_DIR}), libzstd.a or libz.a "
    "are missing; install them, or configure with -DPARASHARD_STATIC_LLVM=OFF")
elseif(PARASHARD_STATIC_LLVM)
  set(is_tool $<BOOL:$<TARGET_PROPERTY:PARASHARD_IS_TOOL>>)
  list(APPEND archives ${ZSTD_ARCHIVE} ${ZLIB_ARCHIVE})
  target_link_libraries(ParashardLLVM INTERFACE "$<${is_tool}:${archives}>" "$<$<NOT:${is_tool}>:MLIR;LLVM>")
else()
  target_link_libraries(ParashardLLVM INTERFACE MLIR LLVM)
endif()

# All libraries and tools of the compiler share one precompiled header, with headers of MLIR and the
# classes of the ops.
if(PARASHARD_ENABLE_PCH)
  add_library(ParashardPch STATIC ${CMAKE_SOURCE_DIR}/cmake/Pch.cpp)
  target_include_directories(ParashardPch SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_precompile_headers(ParashardPch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/Pch.h)
  add_dependencies(ParashardPch PsIncGen RankIncGen)
endif()

# parashard_library(NAME sources... [LINK libs...] [DEPENDS targets...]): adds a static library of
# the compiler. MLIR's headers are system headers.
function(parashard_library name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} ParashardLLVM)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  if(PARASHARD_ENABLE_PCH)
    target_precompile_headers(${name} REUSE_FROM ParashardPch)
  endif()
  set_property(GLOBAL APPEND PROPERTY PARASHARD_LIBRARIES ${name})
endfunction()

# parashard_use_pch(NAME): lets an executable use the precompiled header of the libraries. By
# default, CMake compiles executables with -fPIE, for which clang rejects a header compiled with
# -fPIC. The executable is therefore compiled with -fPIC, like the libraries.
function(parashard_use_pch name)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM ParashardPch)
endfunction()

# parashard_link_llvm(NAME): links an executable with ParashardLLVM as a tool.
function(parashard_link_llvm name)
  set_target_properties(${name} PROPERTIES PARASHARD_IS_TOOL ON)
  target_link_libraries(${name} PRIVATE ParashardLLVM)
  if(PARASHARD_STATIC_LLVM)
    target_link_options(${name} PRIVATE LINKER:--gc-sections)
  endif()
endfunction()

# parashard_tool(NAME sources... [LINK libs...] [SHARED_LLVM]): adds an executable in bin/. With
# SHARED_LLVM, it uses the shared libraries of LLVM, so that it can load plugins.
function(parashard_tool name)
  cmake_parse_arguments(ARG "SHARED_LLVM" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} ParashardVersion)
  if(ARG_SHARED_LLVM)
    target_link_libraries(${name} PRIVATE ParashardLLVM)
  else()
    parashard_link_llvm(${name})
  endif()
  if(PARASHARD_ENABLE_PCH)
    parashard_use_pch(${name})
  endif()
endfunction()
