// Tests the transposition of byte matrices.
#include "runtime/core/Status.h"
#include "runtime/device/cuda/kernels/test/KernelTest.h"

using namespace psrt;
using namespace psrt::cuda;

TEST(Transpose, TransposesByteMatrices) {
  for (ByteMatrices m : {ByteMatrices{64, 64, 64, 1, 0}, ByteMatrices{16, 208, 208, 1, 0},
                         ByteMatrices{144, 16, 20, 1, 0}, ByteMatrices{80, 132, 160, 3, 80 * 160},
                         ByteMatrices{4, 4, 4, 5, 32}}) {
    Bytes in(size_t((m.batches - 1) * m.batchStride + m.rows * m.rowStride));
    std::mt19937 generator(7);
    for (char &byte : in)
      byte = char(generator());
    Bytes out(size_t(m.batches * m.rows * m.columns), 1), want = out;
    for (int64_t batch = 0; batch < m.batches; ++batch)
      for (int64_t row = 0; row < m.rows; ++row)
        for (int64_t column = 0; column < m.columns; ++column)
          want[size_t((batch * m.columns + column) * m.rows + row)] =
              in[size_t(batch * m.batchStride + row * m.rowStride + column)];
    runReplay(launchTranspose(in.data(), out.data(), m));
    EXPECT_EQ(out, want) << m.rows << "x" << m.columns;
  }
}

TEST(Transpose, RefusesMisalignedMatrices) {
  Bytes in(64), out(64);
  EXPECT_THROW(launchTranspose(in.data(), out.data(), {6, 8, 8, 1, 0}), Error);
  EXPECT_THROW(launchTranspose(in.data(), out.data() + 1, {8, 8, 8, 1, 0}), Error);
}
