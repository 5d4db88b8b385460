// Compares embeddings, forward and backward, with the CPU device bit for bit.
#include "runtime/device/cuda/kernels/test/KernelTest.h"

using namespace psrt;
using namespace psrt::cuda;

namespace {

struct Case {
  int64_t count, width, rows;
  Dtype dtype, outDtype, indexDtype;
  bool hasFirst;
  int64_t padding;
  bool accumulate;
};

class Embedding : public testing::TestWithParam<Case> {};

/// Returns indices inside and outside of the table. Every third index is the same.
Bytes makeIndices(const Case &c) {
  std::mt19937 generator(7);
  std::vector<int64_t> wide(c.count);
  for (int64_t i = 0; i < c.count; ++i)
    wide[i] = i % 3 == 0 ? 2 : int64_t(generator() % (c.rows + 4)) - 2;
  return c.indexDtype == Dtype::I64 ? bytesOf(wide)
                                    : bytesOf(std::vector<int32_t>(wide.begin(), wide.end()));
}

void check(const Case &c, bool grad) {
  EmbeddingOp op;
  op.grad = grad, op.dtype = c.dtype, op.outDtype = grad ? c.outDtype : c.dtype;
  op.indexDtype = c.indexDtype, op.count = c.count, op.width = c.width, op.rows = c.rows;
  op.paddingIndex = c.padding;
  int64_t in = grad ? c.count : c.rows, out = grad ? c.rows : c.count;
  std::vector<Bytes> buffers(EmbeddingOp::Buffers);
  buffers[EmbeddingOp::Table] = encode(randomValues(in * c.width, 1), c.dtype);
  buffers[EmbeddingOp::Indices] = makeIndices(c);
  buffers[EmbeddingOp::Out] = encode(randomValues(out * c.width, 2), op.outDtype);
  if (c.hasFirst)
    buffers[EmbeddingOp::FirstRow] = bytesOf(std::vector<int64_t>{1});
  std::vector<Bytes> want = buffers;
  DeviceFixture().run(op, buffersOf(want), c.accumulate);
  Bytes workspace(workspaceBytes(op), 0x55);
  runReplay(launchEmbedding(op, pointersTo(buffers).data(), c.accumulate, workspace.data()));
  EXPECT_EQ(buffers, want);
}

} // namespace

TEST_P(Embedding, RowsMatchTheCpu) { check(GetParam(), false); }
TEST_P(Embedding, GradientMatchesTheCpuBitForBit) { check(GetParam(), true); }

INSTANTIATE_TEST_SUITE_P(
    Forms, Embedding,
    testing::Values(Case{50, 12, 17, Dtype::F32, Dtype::F32, Dtype::I64, false, -1, false},
                    Case{1300, 7, 40, Dtype::F32, Dtype::F32, Dtype::I32, true, 2, true},
                    Case{513, 260, 11, Dtype::BF16, Dtype::BF16, Dtype::I64, true, -1, false},
                    Case{700, 9, 90, Dtype::BF16, Dtype::F32, Dtype::I64, false, 5, true},
                    Case{128, 16, 33, Dtype::F16, Dtype::F16, Dtype::I32, false, -1, true},
                    Case{129, 1, 33, Dtype::F16, Dtype::F32, Dtype::I64, true, 0, false},
                    Case{640, 20, 500, Dtype::F64, Dtype::F64, Dtype::I64, true, 3, true}));
