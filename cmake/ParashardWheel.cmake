# Defines the component `wheel`, which pip installs into the Python package, and the target
# `wheel-files`, which builds the files of this component. The files come from a finished build tree
# (PARASHARD_PREBUILT, relative to the root of the repository), or from this build.
if(DEFINED PARASHARD_PREBUILT)
  get_filename_component(tree ${PARASHARD_PREBUILT} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
  if(NOT EXISTS ${tree}/CMakeCache.txt)
    message(FATAL_ERROR "PARASHARD_PREBUILT: ${tree} is not a build folder; build Parashard there first")
  endif()
  add_custom_target(wheel-files)
  load_cache(${tree} READ_WITH_PREFIX tree_ PARASHARD_STATIC_LLVM CMAKE_STRIP)
  set(is_complete ${tree_PARASHARD_STATIC_LLVM})
  set(strip ${tree_CMAKE_STRIP})
else()
  set(tree ${CMAKE_BINARY_DIR})
  set(is_complete ${PARASHARD_STATIC_LLVM})
  set(strip ${CMAKE_STRIP})
  add_custom_target(wheel-files DEPENDS parashard_runtime psrt_shared psrt-probe ps-compile ps-translate)
endif()

# scikit-build-core sets SKBUILD_SABI_VERSION and SKBUILD_SOABI.
set(module _runtime.${SKBUILD_SOABI}.so)
if(SKBUILD_SABI_VERSION)
  set(module _runtime.abi3.so)
endif()
install(CODE "set(TREE \"${tree}\")
set(MODULE \"${module}\")
set(STRIP \"${strip}\")
set(IS_COMPLETE \"${is_complete}\")" COMPONENT wheel EXCLUDE_FROM_ALL)
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/InstallWheel.cmake COMPONENT wheel EXCLUDE_FROM_ALL)
