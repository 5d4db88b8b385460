// Copies pieces between host and device memory.
#include "runtime/core/MemoryPieces.h"
#include <cstring>

namespace psrt {

void PieceWriter::stageAt(int64_t at) {
  if (at < end)
    return;
  finish();
  begin = at / kPieceBytes * kPieceBytes;
  end = std::min(bytes, begin + kPieceBytes);
  piece = memory.stage(address + begin, end - begin);
  std::memset(piece, 0, end - begin);
}

void PieceWriter::finish() {
  if (piece)
    memory.commit(piece, address + begin, end - begin);
  piece = nullptr;
}

void PieceReader::stageAt(int64_t at) {
  if (at >= begin && at < end)
    return;
  begin = at / kPieceBytes * kPieceBytes;
  end = std::min(bytes, begin + kPieceBytes);
  piece.resize(end - begin);
  memory.read(address + begin, piece.data(), end - begin);
}

void exchange(RankMemory &memory, int64_t one, int64_t other, int64_t bytes) {
  if (char *first = memory.host(one)) {
    std::swap_ranges(first, first + bytes, memory.host(other));
    return;
  }
  std::vector<char> pieces[2];
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    int64_t count = std::min(kPieceBytes, bytes - at);
    for (std::vector<char> &piece : pieces)
      piece.resize(count);
    memory.read(one + at, pieces[0].data(), count);
    memory.read(other + at, pieces[1].data(), count);
    memory.write(one + at, pieces[1].data(), count);
    memory.write(other + at, pieces[0].data(), count);
  }
}

} // namespace psrt
