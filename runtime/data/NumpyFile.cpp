// Reads NumPy's array format (NEP 1) and the directory of zip archives (APPNOTE 6.3.9, with zip64).
#include "runtime/data/NumpyFile.h"
#include "runtime/core/EntryChecks.h"
#include "runtime/core/ProgramJson.h"
#include "runtime/core/Status.h"
#include <charconv>
#include <cstring>

namespace psrt {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint32_t kEndOfDirectory = 0x06054b50, kEndOfDirectory64 = 0x06064b50,
                   kLocator64 = 0x07064b50, kDirectoryHeader = 0x02014b50,
                   kLocalHeader = 0x04034b50;
/// Maximum size of an array whose CRC-32 is checked. The check reads the whole array when the file
/// is opened: about one second for 1 GiB.
constexpr uint64_t kMaxChecked = uint64_t(1) << 30;
constexpr size_t kEndBytes = 22, kLocatorBytes = 20, kHeaderBytes = 46, kLocalBytes = 30;

constexpr struct {
  const char *name;
  Dtype dtype;
} kDtypes[] = {{"<f4", Dtype::F32}, {"<f8", Dtype::F64}, {"<f2", Dtype::F16},
               {"<i8", Dtype::I64}, {"<i4", Dtype::I32}, {"<i2", Dtype::I16},
               {"|i1", Dtype::I8},  {"|u1", Dtype::U8},  {"|b1", Dtype::Bool}};

/// Returns the text after "'KEY':" in the header, which is a Python dict.
std::string_view findValue(std::string_view header, std::string_view key) {
  std::string quoted = "'" + std::string(key) + "':";
  size_t at = header.find(quoted);
  if (at == std::string_view::npos)
    return {};
  std::string_view value = header.substr(at + quoted.size());
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

/// Parses "(3, 4)", "(3,)" or "()". Returns nullopt for other text.
std::optional<std::vector<int64_t>> parseShape(std::string_view text) {
  size_t end = text.find(')');
  if (text.empty() || text.front() != '(' || end == std::string_view::npos)
    return std::nullopt;
  std::vector<int64_t> shape;
  const char *at = text.data() + 1, *last = text.data() + end;
  while (at < last) {
    int64_t size = 0;
    auto [next, error] = std::from_chars(at, last, size);
    if (error != std::errc())
      return std::nullopt;
    shape.push_back(size);
    for (at = next; at < last && (*at == ',' || *at == ' ');)
      ++at;
  }
  return shape;
}

} // namespace

NumpyFile::NumpyFile(const std::string &path) : file(path) {
  std::string_view bytes(file.data(), file.size());
  bool isArchive = path.ends_with(".npz");
  if (isArchive)
    readArchive();
  else
    addArray("", bytes);
}

void NumpyFile::fail(const std::string &message) const {
  PSRT_FAIL(BadInput, "\"%s\" %s", file.path().c_str(), message.c_str());
}

uint64_t NumpyFile::read(size_t at, size_t bytes) const {
  if (at > file.size() || bytes > file.size() - at)
    fail("is truncated: its directory of arrays is damaged");
  uint64_t value = 0; // little-endian
  std::memcpy(&value, file.data() + at, bytes);
  return value;
}

void NumpyFile::readArchive() {
  size_t end = file.size();
  constexpr size_t kMaxComment = 0xFFFF;
  for (size_t tried = 0; tried <= kMaxComment && file.size() >= kEndBytes + tried; ++tried)
    if (read(file.size() - kEndBytes - tried, 4) == kEndOfDirectory) {
      end = file.size() - kEndBytes - tried;
      break;
    }
  if (end == file.size())
    fail("is not an .npz file or is truncated: it has no directory of arrays at its end");
  uint64_t count = read(end + 10, 2), at = read(end + 16, 4);
  if (end >= kLocatorBytes && read(end - kLocatorBytes, 4) == kLocator64) {
    uint64_t wide = read(end - kLocatorBytes + 8, 8);
    if (read(wide, 4) != kEndOfDirectory64)
      fail("has a damaged directory of arrays");
    count = read(wide + 32, 8), at = read(wide + 48, 8);
  }
  for (uint64_t i = 0; i < count; ++i)
    at = readEntry(at);
}

/// Reads an entry of the directory. Returns the offset of the next one.
size_t NumpyFile::readEntry(size_t at) {
  if (read(at, 4) != kDirectoryHeader)
    fail("has a damaged directory of arrays");
  uint64_t method = read(at + 10, 2), stored = read(at + 20, 4), size = read(at + 24, 4),
           header = read(at + 42, 4), nameSize = read(at + 28, 2), extraSize = read(at + 30, 2);
  size_t next = at + kHeaderBytes + nameSize + extraSize + read(at + 32, 2);
  read(next, 0); // checks that the entry is complete
  std::string name(file.data() + at + kHeaderBytes, nameSize);
  size_t extra = at + kHeaderBytes + nameSize, extraEnd = extra + extraSize;
  for (; extra + 4 <= extraEnd; extra += 4 + read(extra + 2, 2)) {
    if (read(extra, 2) != 1)
      continue;
    // The field holds the numbers that do not fit 32 bits, each as 64 bits, in the loop's order.
    size_t field = extra + 4;
    for (uint64_t *value : {&size, &stored, &header})
      if (*value == 0xFFFFFFFF)
        *value = read(field, 8), field += 8;
    break;
  }
  if (method != 0)
    fail("has the array \"" + name +
         "\" compressed, but arrays are read in place; write it with numpy.savez, not "
         "savez_compressed");
  if (read(header, 4) != kLocalHeader || stored != size)
    fail("is damaged: its directory points to no data for the array \"" + name + "\"");
  size_t begin = header + kLocalBytes + read(header + 26, 2) + read(header + 28, 2);
  if (begin > file.size() || size > file.size() - begin)
    fail("is truncated in its array \"" + name + "\"");
  constexpr std::string_view kEnding = ".npy";
  bool isArray = name.size() > kEnding.size() && name.ends_with(kEnding);
  if (!isArray)
    fail("has \"" + name + "\", which is not an array");
  if (size <= kMaxChecked && computeCrc32(file.data() + begin, size) != read(at + 16, 4))
    fail("is damaged: the array \"" + name +
         "\" was changed after it was written (its CRC-32 differs)");
  addArray(name.substr(0, name.size() - kEnding.size()), {file.data() + begin, size});
  return next;
}

void NumpyFile::addArray(const std::string &name, std::string_view bytes) {
  std::string which = name.empty() ? "" : "has the array \"" + name + "\", which ";
  size_t prefix = bytes.size() > 6 && bytes[6] == 1 ? 2 : 4; // size of the header's length field
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + 2 + prefix)
    fail(which + "is not an array written by numpy.save");
  uint64_t size = 0;
  std::memcpy(&size, bytes.data() + kMagic.size() + 2, prefix);
  size_t begin = kMagic.size() + 2 + prefix;
  if (size > bytes.size() - begin)
    fail(which + "is truncated");
  std::string_view header = bytes.substr(begin, size), data = bytes.substr(begin + size);
  std::string_view descr = findValue(header, "descr"), order = findValue(header, "fortran_order");
  std::optional<std::vector<int64_t>> shape = parseShape(findValue(header, "shape"));
  if (descr.empty() || order.empty() || !shape)
    fail(which + "has no readable header");
  if (!order.starts_with("False") && shape->size() > 1)
    fail(which + "is in Fortran order; save numpy.ascontiguousarray(array) instead");
  const Dtype *dtype = nullptr;
  std::string type(descr.substr(0, descr.find(',')));
  for (const auto &known : kDtypes)
    if (type == "'" + std::string(known.name) + "'")
      dtype = &known.dtype;
  if (!dtype)
    fail(which + "has the unsupported dtype " + type +
         "; convert it with astype, for example to float32 or int64");
  std::optional<int64_t> count = tryCountElements(*shape);
  if (!count || uint64_t(*count) * dtypeSize(*dtype) != data.size())
    fail(format(
        "%sis truncated or damaged: it has %zu bytes of data, which does not match its shape",
        which.c_str(), data.size()));
  for (const HostTensor &other : table)
    if (other.name == name)
      fail("has the array \"" + name + "\" twice");
  table.push_back({name, *dtype, std::move(*shape), data.data()});
}

} // namespace psrt
