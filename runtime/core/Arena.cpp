// Maps the memory of an arena, with huge pages where the system has them.
#include "runtime/core/Arena.h"
#include "runtime/core/Status.h"
#include <sys/mman.h>

namespace psrt {

Arena::Arena(size_t bytes)
    : base(nullptr), bytes(bytes), mapped((bytes + 4096 + 4095) / 4096 * 4096) {
  void *memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    PSRT_FAIL(Failed, "cannot map an arena of %zu bytes; use more ranks or a smaller micro-batch",
              bytes);
  base = static_cast<char *>(memory);
  madvise(base, mapped, MADV_HUGEPAGE);
}

Arena::~Arena() { munmap(base, mapped); }

} // namespace psrt
