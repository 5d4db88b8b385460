// Where the ranks of a fake communicator meet, threads of one process or processes of one
// machine: shared memory with a slot for each of them.
#ifndef PSRT_TESTING_NCCL_BOARD_H
#define PSRT_TESTING_NCCL_BOARD_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace psrt::fake {

/// Thrown where a communicator is aborted while it waits.
struct BoardAborted {};

class Board {
public:
  static constexpr size_t kSlotBytes = 1 << 16; ///< of a rank's slot
  static constexpr size_t kMailBytes = 1 << 14; ///< of the box from one rank to another

  /// All ranks open it under the same name; it is gone from the machine when all have.
  Board(const std::string &name, int ranks, const std::atomic<bool> &aborted);
  ~Board();
  Board(const Board &) = delete;

  char *slot(int rank) const;
  /// Returns when all ranks have called it.
  void barrier();

  /// Bytes that are in the box from one rank to another: who sends fills an empty one, who receives
  /// empties it.
  struct Mail {
    std::atomic<uint32_t> bytes;
    char data[kMailBytes];
  };
  Mail &mail(int from, int to) const;
  /// Called where there is nothing to do but to wait.
  void pause() const;

private:
  struct Header;
  Header *header = nullptr;
  size_t size = 0;
  int ranks;
  const std::atomic<bool> &aborted;
};

} // namespace psrt::fake

#endif
