// Appends weights to a program.
#include "Payload.h"
#include "psrt/payload.h"
#include "llvm/Support/MathExtras.h"

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

void Payload::write(raw_ostream &os, uint64_t before) const {
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
}
