// Locks the folder of an export and removes temporary files.
#include "runtime/data/ExportFolder.h"
#include "runtime/core/NewFile.h"
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace psrt {

namespace fs = std::filesystem;

bool isExportName(const std::string &name) {
  return name == kWeightIndex || name == kWholeWeights ||
         (name.starts_with("model-") && name.find("-of-") != std::string::npos &&
          fs::path(name).extension() == ".safetensors");
}

ExportFolder::ExportFolder(const std::string &path) : path(path) {
  descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    bool isBusy = errno == EWOULDBLOCK || errno == EINTR;
    if (isBusy && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    close(descriptor);
    descriptor = -1;
  }
}

ExportFolder::~ExportFolder() {
  if (descriptor >= 0)
    close(descriptor);
}

/// Returns whether the file is not locked. An OutputFile locks its file, so no process is then
/// writing the file.
static bool isUnlocked(const fs::path &file) {
  int descriptor = open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  bool result = descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  if (descriptor >= 0)
    close(descriptor);
  return result;
}

void ExportFolder::removeLeftovers() const {
  if (descriptor < 0)
    return;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::string target = findLeftoverTarget(it->path().filename().string());
    std::error_code ignored;
    if (isExportName(target) && it->is_regular_file(ignored) && isUnlocked(it->path()))
      fs::remove(it->path(), ignored);
  }
}

} // namespace psrt
