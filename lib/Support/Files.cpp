// Files that appear whole or not at all.
#include "lib/Support/Files.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include <cerrno>
#include <cstdlib>
#include <random>

namespace parashard {
namespace fs = llvm::sys::fs;

static llvm::Error fail(llvm::StringRef path, std::error_code code) {
  return llvm::createStringError(code, "cannot write '%s': %s", path.str().c_str(),
                                 code.message().c_str());
}

/// Returns an unpredictable name beside `target`, cut to 255 bytes.
static std::string drawTemporaryName(llvm::StringRef target) {
  constexpr size_t kMost = 230;
  std::random_device random;
  uint64_t number = uint64_t(random()) << 32 | random();
  llvm::SmallString<128> result(llvm::sys::path::parent_path(target));
  llvm::sys::path::append(result, llvm::sys::path::filename(target).take_front(kMost) + "." +
                                      llvm::utohexstr(number, /*LowerCase=*/true, /*Width=*/16) +
                                      ".tmp");
  return std::string(result);
}

/// Creates a file that was not there, beside `target`, and opens it.
static std::error_code createBeside(llvm::StringRef target, unsigned mode, int &descriptor,
                                    std::string &temporary) {
  std::error_code code;
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary = drawTemporaryName(target);
    code = fs::openFileForWrite(temporary, descriptor, fs::CD_CreateNew, fs::OF_None, mode);
    if (code != std::errc::file_exists)
      return code;
  }
  return code;
}

llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write,
                            unsigned mode) {
  llvm::SmallString<128> target(path);
  if (fs::is_symlink_file(path))
    if (std::error_code code = fs::real_path(path, target))
      return fail(path, code);
  if (fs::exists(target) && !fs::is_regular_file(target))
    return llvm::createStringError("cannot write '" + path + "': it is no regular file");
  int descriptor = -1;
  std::string temporary;
  if (std::error_code code = createBeside(target, mode, descriptor, temporary))
    return fail(path, code);
  llvm::sys::RemoveFileOnSignal(temporary);
  llvm::raw_fd_ostream os(descriptor, /*shouldClose=*/true);
  llvm::Error error = write(os);
  os.close();
  if (os.has_error() && !error)
    error = fail(path, os.error());
  os.clear_error();
  if (!error)
    if (std::error_code code = fs::rename(temporary, target))
      error = fail(path, code);
  if (error)
    fs::remove(temporary);
  llvm::sys::DontRemoveFileOnSignal(temporary);
  return error;
}

llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<void(llvm::raw_ostream &)> write) {
  constexpr unsigned kData = 0666;
  return writeAtomically(
      path,
      [&](llvm::raw_ostream &os) {
        write(os);
        return llvm::Error::success();
      },
      kData);
}

llvm::Expected<PrivateFolder> PrivateFolder::create() {
  llvm::SmallString<128> model;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, model);
  llvm::sys::path::append(model, "parashard-XXXXXX");
  PrivateFolder folder;
  folder.path = model.str().str();
  if (mkdtemp(folder.path.data())) // of mode 0700
    return std::move(folder);
  std::error_code code(errno, std::generic_category());
  std::string parent = llvm::sys::path::parent_path(model).str();
  return llvm::createStringError(code, "cannot make a temporary folder in '%s': %s", parent.c_str(),
                                 code.message().c_str());
}

PrivateFolder::PrivateFolder(PrivateFolder &&other) noexcept
    : path(std::exchange(other.path, "")), files(std::exchange(other.files, {})) {}

std::string PrivateFolder::name(llvm::StringRef file) {
  llvm::SmallString<128> result(path);
  llvm::sys::path::append(result, file);
  llvm::sys::RemoveFileOnSignal(result);
  files.push_back(result.str().str());
  return files.back();
}

PrivateFolder::~PrivateFolder() {
  for (const std::string &file : files) {
    fs::remove(file);
    llvm::sys::DontRemoveFileOnSignal(file);
  }
  if (!path.empty())
    fs::remove(path);
}

} // namespace parashard
