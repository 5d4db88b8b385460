// Files that appear whole or not at all.
#include "lib/Support/Files.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Signals.h"

namespace parashard {
namespace fs = llvm::sys::fs;

static llvm::Error fail(llvm::StringRef path, std::error_code code) {
  return llvm::createStringError(code, "cannot write '%s': %s", path.str().c_str(),
                                 code.message().c_str());
}

llvm::Error makeAtomically(llvm::StringRef path,
                           llvm::function_ref<llvm::Error(llvm::StringRef temporary)> make) {
  llvm::SmallString<128> target(path);
  if (fs::is_symlink_file(path))
    if (std::error_code code = fs::real_path(path, target))
      return fail(path, code);
  if (fs::exists(target) && !fs::is_regular_file(target))
    return llvm::createStringError("cannot write '" + path + "': it is no regular file");
  std::string temporary = (target + ".tmp").str();
  llvm::sys::RemoveFileOnSignal(temporary);
  llvm::Error error = make(temporary);
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
  return makeAtomically(path, [&](llvm::StringRef temporary) -> llvm::Error {
    std::error_code code;
    llvm::raw_fd_ostream os(temporary, code);
    if (code)
      return fail(path, code);
    write(os);
    os.flush();
    code = os.error();
    os.clear_error();
    return code ? fail(path, code) : llvm::Error::success();
  });
}

} // namespace parashard
