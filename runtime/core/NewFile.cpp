// Creates files exclusively under unpredictable names.
#include "runtime/core/NewFile.h"
#include "runtime/core/Status.h"
#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace psrt {

static constexpr size_t kDigits = 16;
static const std::string kEnding = ".tmp";

std::string drawUniqueName() {
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number))
    PSRT_FAIL(Failed, "cannot get random bytes from the system: %s", std::strerror(errno));
  return format("%016llx", (unsigned long long)number);
}

/// Splits a path into the folder, with its slash, and the name.
static std::pair<std::string, std::string> splitPath(const std::string &path) {
  size_t slash = path.rfind('/');
  size_t length = slash == std::string::npos ? 0 : slash + 1;
  return {path.substr(0, length), path.substr(length)};
}

/// Returns the prefix of a temporary name. Truncates long names, since a file name has at most 255
/// bytes.
static std::string beginTemporaryName(const std::string &name) {
  return name.substr(0, NAME_MAX - kDigits - kEnding.size() - 1) + ".";
}

/// Copies the permissions of the regular file at `target`, if this user owns it.
static void copyPermissions(const std::string &target, int descriptor) {
  struct stat info;
  if (stat(target.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid())
    (void)!fchmod(descriptor, info.st_mode & 0777);
}

NewFile createBeside(const std::string &target) {
  auto [folder, name] = splitPath(target);
  struct stat info;
  if (lstat(target.c_str(), &info) != 0 && errno != ENOENT)
    return {}; // the name itself is invalid, for example too long
  NewFile file;
  for (int attempt = 0; attempt < 100 && file.descriptor < 0; ++attempt) {
    file.path = folder + beginTemporaryName(name) + drawUniqueName() + kEnding;
    file.descriptor =
        open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file.descriptor < 0 && errno != EEXIST)
      return {};
  }
  if (file.descriptor >= 0)
    copyPermissions(target, file.descriptor);
  return file;
}

ReservedSpace::ReservedSpace(const std::string &target, int64_t bytes) {
  struct stat info;
  bool isFolder = stat(target.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  std::string folder = isFolder ? target : splitPath(target).first;
  descriptor = open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0 || bytes <= 0)
    return;
  int failed;
  do
    failed = fallocate(descriptor, 0, 0, bytes) != 0 ? errno : 0;
  while (failed == EINTR);
  if (failed != 0)
    release();
  if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG)
    PSRT_FAIL(
        BadInput,
        "cannot write \"%s\": %s; the run needs %lld bytes for this file, and reserves them when "
        "it starts",
        target.c_str(), std::strerror(failed), (long long)bytes);
}

ReservedSpace &ReservedSpace::operator=(ReservedSpace &&other) noexcept {
  release();
  descriptor = std::exchange(other.descriptor, -1);
  return *this;
}

void ReservedSpace::release() {
  if (descriptor >= 0)
    close(std::exchange(descriptor, -1));
}

bool isLeftover(const std::string &name, const std::string &target) {
  std::string begin = beginTemporaryName(target);
  return name.size() == begin.size() + kDigits + kEnding.size() && name.starts_with(begin) &&
         name.find_first_not_of("0123456789abcdef", begin.size()) == begin.size() + kDigits &&
         name.compare(begin.size() + kDigits, kEnding.size(), kEnding) == 0;
}

std::string findLeftoverTarget(const std::string &name) {
  constexpr size_t kAdded = 1 + kDigits + 4;
  std::string target = name.size() > kAdded ? name.substr(0, name.size() - kAdded) : "";
  return !target.empty() && isLeftover(name, target) ? target : "";
}

void syncFolderOf(const std::string &path) {
  std::string folder = splitPath(path).first;
  int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return; // a folder may be writable but not readable
  fsync(descriptor);
  close(descriptor);
}

} // namespace psrt
