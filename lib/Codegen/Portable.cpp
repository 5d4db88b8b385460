// Lists the libraries of a portable program, and copies them to a folder beside the program.
#include "Portable.h"
#include "dialects/ps/Refusal.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include <map>
#include <unistd.h>

using namespace parashard::support;

using llvm::StringRef;

namespace parashard::codegen {
namespace {

llvm::Error failPortable(const llvm::Twine &message) {
  return ps::createFlagError("portable", ": " + message);
}

/// Returns true if a library is part of the C or C++ library, which every Linux system has. These
/// libraries are not bundled, because a process cannot use two versions of one of them.
bool isOfSystem(StringRef name) {
  constexpr const char *kNames[] = {"libc.so.",       "libm.so.",     "libdl.so.",
                                    "libpthread.so.", "librt.so.",    "ld-linux",
                                    "linux-vdso.so",  "libgcc_s.so.", "libstdc++.so."};
  return llvm::any_of(kNames, [&](StringRef known) { return name.starts_with(known); });
}

/// Splits "GLIBCXX_3.4.30" into ("GLIBCXX", {3, 4, 30}). A version without numbers, such as
/// "GLIBC_PRIVATE", is not split.
std::pair<std::string, std::vector<unsigned>> splitVersion(StringRef version) {
  auto [name, numbers] = version.rsplit('_');
  std::vector<unsigned> parts;
  for (StringRef part : llvm::split(numbers, '.')) {
    unsigned number;
    if (part.getAsInteger(10, number))
      return {version.str(), {}};
    parts.push_back(number);
  }
  return {name.str(), parts};
}

/// The newest version of each library and version name. Example: ["libstdc++.so.6"]["GLIBCXX"] is
/// {3, 4, 30}.
using Versions = std::map<std::string, std::map<std::string, std::vector<unsigned>>>;

/// Adds the versions of the system's libraries that the file `path` uses.
llvm::Error addVersions(StringRef path, Versions &versions) {
  auto buffer =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return llvm::createStringError(buffer.getError(), "cannot read '%s'", path.str().c_str());
  auto object = llvm::object::ObjectFile::createELFObjectFile((*buffer)->getMemBufferRef());
  if (!object)
    return object.takeError();
  auto *elf = llvm::dyn_cast<llvm::object::ELF64LEObjectFile>(object->get());
  if (!elf)
    return llvm::createStringError("'" + path + "' is not a 64-bit ELF file");
  const auto &file = elf->getELFFile();
  auto sections = file.sections();
  if (!sections)
    return sections.takeError();
  for (const auto &section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_GNU_verneed)
      continue;
    auto needs = file.getVersionDependencies(
        section, [](const llvm::Twine &) { return llvm::Error::success(); });
    if (!needs)
      return needs.takeError();
    for (const llvm::object::VerNeed &need : *needs)
      for (const llvm::object::VernAux &entry : need.AuxV) {
        // Name may contain more bytes after its null byte.
        auto [name, numbers] = splitVersion(StringRef(entry.Name).split('\0').first);
        std::vector<unsigned> &newest = versions[need.File.c_str()][name];
        newest = std::max(newest, numbers);
      }
  }
  return llvm::Error::success();
}

std::string describe(const std::string &library,
                     const std::map<std::string, std::vector<unsigned>> &versions) {
  std::vector<std::string> texts;
  for (const auto &[name, numbers] : versions) {
    std::string text = name;
    for (auto [i, number] : llvm::enumerate(numbers))
      text += (i ? "." : "_") + std::to_string(number);
    texts.push_back(text);
  }
  return texts.empty() ? library : library + " (" + llvm::join(texts, ", ") + ")";
}

/// Returns the libraries that the dynamic loader would load for a program, as ldd prints them. A
/// line is like "libz.so.1 => /lib/libz.so.1 (0x7f...)" or "libz.so.1 => not found". Also searches
/// `folder`, unless it is empty. Does not start the program.
llvm::Expected<std::string> listLoaded(StringRef program, StringRef folder,
                                       PrivateFolder &scratch) {
  std::string out = scratch.name("loaded.txt"), message;
  std::optional<StringRef> redirects[] = {StringRef(""), out, out};
  std::vector<std::string> variables = {"LD_TRACE_LOADED_OBJECTS=1"};
  if (!folder.empty()) // a portable program has no path to this folder
    variables.push_back("LD_LIBRARY_PATH=" + folder.str());
  for (char **variable = environ; *variable; ++variable)
    variables.emplace_back(*variable);
  llvm::SmallVector<StringRef> environment(variables.begin(), variables.end());
  int status = llvm::sys::ExecuteAndWait(program, {program}, llvm::ArrayRef<StringRef>(environment),
                                         redirects, 0, 0, &message);
  auto buffer = llvm::MemoryBuffer::getFile(out);
  if (status != 0 || !buffer)
    return failPortable("the dynamic loader does not list the program's libraries: " + message +
                        (buffer ? (*buffer)->getBuffer().rtrim() : StringRef()));
  return (*buffer)->getBuffer().str();
}

} // namespace

std::string getLibraryFolderName(StringRef program) {
  return (llvm::sys::path::filename(program) + ".libs").str();
}

llvm::Expected<ProgramLibraries> findLibraries(StringRef linked,
                                               llvm::ArrayRef<std::string> further,
                                               StringRef folder, PrivateFolder &scratch) {
  llvm::Expected<std::string> loaded = listLoaded(linked, folder, scratch);
  if (!loaded)
    return loaded.takeError();
  ProgramLibraries result;
  for (StringRef line : llvm::split(*loaded, '\n')) {
    auto [name, target] = line.trim().split(" => ");
    if (target.empty() || isOfSystem(name))
      continue;
    StringRef path = target.rsplit(" (").first;
    if (!llvm::sys::path::is_absolute(path))
      return failPortable("the program needs " + name + ", which is not found on this machine");
    result.bundled.push_back(path.str());
  }
  llvm::append_range(result.bundled, further);
  Versions versions;
  if (llvm::Error error = addVersions(linked, versions))
    return std::move(error);
  for (const std::string &path : result.bundled)
    if (llvm::Error error = addVersions(path, versions))
      return std::move(error);
  for (const auto &[library, used] : versions)
    if (isOfSystem(library) && !StringRef(library).starts_with("ld-linux"))
      result.needed.push_back(describe(library, used));
  return result;
}

llvm::Error bundleLibraries(llvm::ArrayRef<std::string> files, StringRef program) {
  llvm::SmallString<128> folder(llvm::sys::path::parent_path(program));
  llvm::sys::path::append(folder, getLibraryFolderName(program));
  if (std::error_code code =
          llvm::sys::fs::create_directory(folder, /*IgnoreExisting=*/true, llvm::sys::fs::all_all))
    return failPortable("cannot make the folder '" + folder + "': " + code.message());
  for (const std::string &file : files) {
    llvm::SmallString<128> copy(folder);
    llvm::sys::path::append(copy, llvm::sys::path::filename(file));
    auto buffer =
        llvm::MemoryBuffer::getFile(file, /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!buffer)
      return failPortable("cannot read '" + file + "'");
    if (llvm::Error error =
            writeAtomically(copy, [&](llvm::raw_ostream &os) { os << (*buffer)->getBuffer(); }))
      return error;
  }
  return llvm::Error::success();
}

} // namespace parashard::codegen
