// Writing under a temporary name, then renaming.
#include "runtime/data/OutputFile.h"
#include "runtime/core/Status.h"
#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace psrt {

static std::string temporaryName(const std::string &path) {
  return path + format(".tmp%d", int(getpid()));
}

OutputFile::OutputFile(const std::string &path) : path(path), temporary(temporaryName(path)) {
  file = std::fopen(temporary.c_str(), "wb");
  if (!file)
    fail();
}

OutputFile::~OutputFile() {
  if (file)
    std::fclose(file);
  if (!committed)
    unlink(temporary.c_str());
}

void OutputFile::write(const void *data, size_t bytes) {
  if (bytes && std::fwrite(data, 1, bytes, file) != bytes)
    fail();
}

void OutputFile::commit() {
  bool good = std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  good &= std::fclose(std::exchange(file, nullptr)) == 0;
  if (!good || std::rename(temporary.c_str(), path.c_str()) != 0)
    fail();
  committed = true;
}

void OutputFile::fail() const {
  PSRT_FAIL(BadInput, "cannot write \"%s\": %s", path.c_str(), std::strerror(errno));
}

void checkWritable(const std::string &path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
    PSRT_FAIL(BadInput, "cannot write \"%s\": it is a folder; name a file", path.c_str());
  std::string probe = temporaryName(path);
  std::FILE *file = std::fopen(probe.c_str(), "wb");
  if (!file)
    PSRT_FAIL(BadInput, "cannot write \"%s\": %s", path.c_str(), std::strerror(errno));
  std::fclose(file);
  unlink(probe.c_str());
}

} // namespace psrt
