# Copies the files of the Python wheel to CMAKE_INSTALL_PREFIX/parashard: the extension module, tools
# (bin), and libraries (lib). Tools find lib relative to themselves. Variables:
#   TREE         build tree with the files
#   MODULE       file name of the extension module, such as _runtime.abi3.so
#   IS_COMPLETE  the tools contain LLVM (PARASHARD_STATIC_LLVM). Then the wheel also has their other
#                libraries; else the tools only run where LLVM is installed.
#   STRIP        the program that removes the symbols of tools and shared libraries
set(package ${CMAKE_INSTALL_PREFIX}/parashard)
set(tools ps-compile ps-translate psrt-probe)
set(archives psrt_main psrt psrt_data psrt_comm_process psrt_bootstrap psrt_comm_local psrt_device_cpu
  psrt_device_cuda psrt_cuda_kernels psrt_core psrt_builtins)

if(NOT EXISTS ${TREE}/python/parashard/${MODULE})
  message(FATAL_ERROR "${TREE}/python/parashard has no ${MODULE}: it is not built, or built for another Python. Run "
    "scripts/install-deps --tests, cmake --preset release -DPython_EXECUTABLE=PATH with the Python that builds the "
    "wheel, and cmake --build --preset release")
endif()
file(INSTALL ${TREE}/python/parashard/${MODULE} DESTINATION ${package})
list(TRANSFORM tools PREPEND ${TREE}/bin/)
file(INSTALL ${tools} DESTINATION ${package}/bin USE_SOURCE_PERMISSIONS)
list(TRANSFORM archives REPLACE "(.+)" "${TREE}/lib/lib\\1.a")
file(INSTALL ${archives} ${TREE}/lib/libpsrt.so DESTINATION ${package}/lib)
file(INSTALL ${TREE}/lib/ld.lld DESTINATION ${package}/lib USE_SOURCE_PERMISSIONS)
if(EXISTS ${TREE}/lib/libpsrt_comm_mpi.so)
  file(INSTALL ${TREE}/lib/libpsrt_comm_mpi.so DESTINATION ${package}/lib)
endif()

file(GLOB elf ${package}/bin/* ${package}/lib/*.so ${package}/lib/ld.lld ${package}/${MODULE})
execute_process(COMMAND ${STRIP} ${elf} COMMAND_ERROR_IS_FATAL ANY)

# A wheel cannot contain links. ps-compile runs as ps-plan if this is its first argument.
file(WRITE ${package}/bin/ps-plan "#!/bin/sh\nexec \"\${0%/*}/ps-compile\" ps-plan \"$@\"\n")
file(CHMOD ${package}/bin/ps-plan PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# Bundles all libraries except those of the C and C++ compilers, which every Linux system has.
if(IS_COMPLETE)
  list(APPEND tools ${TREE}/lib/ld.lld)
else()
  set(tools)
endif()
file(GET_RUNTIME_DEPENDENCIES
  EXECUTABLES ${tools}
  LIBRARIES ${TREE}/lib/libpsrt.so
  MODULES ${TREE}/python/parashard/${MODULE}
  PRE_EXCLUDE_REGEXES "^lib(c|m|dl|pthread|rt|stdc\\+\\+|gcc_s)\\.so" "^ld-linux" "^libpsrt\\.so"
  RESOLVED_DEPENDENCIES_VAR libraries)
find_program(DPKG_QUERY dpkg-query)
set(packages llvm-22-dev libprotobuf-dev)
foreach(library IN LISTS libraries)
  get_filename_component(name ${library} NAME)
  file(REAL_PATH ${library} file)
  file(COPY_FILE ${file} ${package}/lib/${name})
  if(DPKG_QUERY)
    execute_process(COMMAND ${DPKG_QUERY} --search */${name} OUTPUT_VARIABLE owner ERROR_QUIET)
    string(REGEX REPLACE ":.*" "" owner "${owner}")
    list(APPEND packages ${owner})
  endif()
endforeach()
# The license of a library is part of its Debian package.
file(MAKE_DIRECTORY ${package}/licenses)
foreach(name IN LISTS packages)
  if(EXISTS /usr/share/doc/${name}/copyright)
    file(COPY_FILE /usr/share/doc/${name}/copyright ${package}/licenses/${name}.txt)
  endif()
endforeach()
