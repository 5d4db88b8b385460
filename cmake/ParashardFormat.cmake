# Defines targets for the formatting of the C++ sources: `format` rewrites the sources, and
# `check-format` fails if a source is not formatted.
find_program(CLANG_FORMAT clang-format-${PARASHARD_LLVM_VERSION})
if(CLANG_FORMAT)
  set(FORMAT_SOURCES "git ls-files '*.cpp' '*.h' | xargs ${CLANG_FORMAT} --style=file")
  add_custom_target(format COMMAND sh -c "${FORMAT_SOURCES} -i"
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} COMMENT "format the sources" VERBATIM)
  add_custom_target(check-format COMMAND sh -c "${FORMAT_SOURCES} --dry-run -Werror"
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} COMMENT "check the format of the sources" VERBATIM)
endif()
