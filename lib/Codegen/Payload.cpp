// Appends weights to a program.
#include "Payload.h"
#include "psrt/payload.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace parashard;
using namespace parashard::codegen;

Expected<import::FileRange> Payload::add(StringRef location) {
  if (auto it = known.find(location); it != known.end())
    return it->second;
  Expected<StringRef> bytes = files.read(location);
  if (!bytes)
    return bytes.takeError();
  import::FileRange range{"", size, bytes->size()};
  tensors.push_back(*bytes);
  size = alignTo(size + bytes->size(), PSRT_PAYLOAD_ALIGNMENT);
  return known[location] = range;
}

static void padTo(raw_ostream &os, uint64_t written, uint64_t end) {
  os.write_zeros(end - written);
}

Error Payload::appendTo(StringRef path) const {
  auto fail = [&](std::error_code code) {
    return createStringError(code, "cannot write the weights into %s: %s", path.str().c_str(),
                             code.message().c_str());
  };
  uint64_t before = 0;
  if (std::error_code code = sys::fs::file_size(path, before))
    return fail(code);
  std::error_code code;
  raw_fd_ostream os(path, code, sys::fs::CD_OpenExisting, sys::fs::FA_Write, sys::fs::OF_Append);
  if (code)
    return fail(code);
  psrt_payload_end end{{}, alignTo(before, 4096), size};
  std::memcpy(end.magic, PSRT_PAYLOAD_MAGIC, sizeof(end.magic));
  padTo(os, before, end.begin);
  uint64_t written = 0;
  for (StringRef tensor : tensors) {
    os << tensor;
    uint64_t next = alignTo(written + tensor.size(), PSRT_PAYLOAD_ALIGNMENT);
    padTo(os, written + tensor.size(), next);
    written = next;
  }
  os.write(reinterpret_cast<const char *>(&end), sizeof(end));
  os.flush();
  if (!os.has_error())
    return Error::success();
  code = os.error();
  os.clear_error();
  return fail(code);
}
