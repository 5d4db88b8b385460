# Writes the file OUT, which defines the functions of parashard/Version.h. VERSION is the version.
# The commit is the current commit of the git repository SOURCE, which the program GIT prints. If
# SOURCE is only a subfolder of a repository (a vendored copy), the commit is `unknown`, because the
# repository belongs to another project.
set(COMMIT unknown)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-prefix
    OUTPUT_VARIABLE PREFIX RESULT_VARIABLE STATUS ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(STATUS EQUAL 0 AND PREFIX STREQUAL "")
    execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --exclude=* --abbrev=12 --dirty
      OUTPUT_VARIABLE DESCRIBED RESULT_VARIABLE STATUS ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(STATUS EQUAL 0)
      set(COMMIT ${DESCRIBED})
    endif()
  endif()
endif()
set(TEXT "// Written by cmake/WriteVersion.cmake.
#include \"parashard/Version.h\"

const char *parashard::getVersion() { return \"${VERSION}\"; }
const char *parashard::getCommit() { return \"${COMMIT}\"; }
std::string parashard::describeVersion() { return \"${VERSION} (commit ${COMMIT})\"; }
")
if(EXISTS ${OUT})
  file(READ ${OUT} OLD)
endif()
if(NOT "${TEXT}" STREQUAL "${OLD}")
  file(WRITE ${OUT} "${TEXT}")
endif()
