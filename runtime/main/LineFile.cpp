// Lines into a file, each seen at once.
#include "runtime/main/LineFile.h"
#include "runtime/core/Status.h"
#include <cerrno>
#include <cstring>

namespace psrt {

LineFile::LineFile(const std::string &path) : path(path) {
  if (path.empty())
    return;
  file = std::fopen(path.c_str(), "w");
  if (!file)
    fail();
  std::setvbuf(file, nullptr, _IOLBF, 1 << 14);
}

LineFile::~LineFile() {
  if (file)
    std::fclose(file);
}

void LineFile::write(const std::string &line) {
  if (file && (std::fputs(line.c_str(), file) < 0 || std::fputc('\n', file) < 0))
    fail();
}

void LineFile::fail() const {
  PSRT_FAIL(BadInput, "cannot write \"%s\": %s", path.c_str(), std::strerror(errno));
}

} // namespace psrt
