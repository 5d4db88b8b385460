// Maps whole files with mmap.
#include "runtime/data/MappedFile.h"
#include "runtime/core/Status.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace psrt {

MappedFile::MappedFile(const std::string &path) : name(path) {
  // With O_NONBLOCK, opening a FIFO without a writer does not block.
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info;
  if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    int reason = file < 0 ? errno : EINVAL;
    if (file >= 0)
      close(file);
    PSRT_FAIL(BadInput, "cannot read \"%s\": %s", path.c_str(),
              reason == EINVAL ? "not a regular file" : std::strerror(reason));
  }
  length = size_t(info.st_size);
  if (length > 0) {
    void *memory = mmap(nullptr, length, PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
      close(file);
      PSRT_FAIL(BadInput, "cannot map \"%s\": %s", path.c_str(), std::strerror(errno));
    }
    bytes = static_cast<const char *>(memory);
  }
  close(file);
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : name(std::move(other.name)), bytes(std::exchange(other.bytes, nullptr)),
      length(std::exchange(other.length, 0)) {}

MappedFile::~MappedFile() {
  if (bytes)
    munmap(const_cast<char *>(bytes), length);
}

} // namespace psrt
