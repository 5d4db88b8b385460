// Tests the kernels that reduce over members or copy parts: their results must equal those of the
// collectives of comm/local.
#include "runtime/comm/local/Collectives.h"
#include "runtime/device/cuda/kernels/test/KernelTest.h"

using namespace psrt;
using namespace psrt::cuda;

namespace {

const Dtype everyDtype[] = {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I64,
                            Dtype::I32, Dtype::I16, Dtype::I8,  Dtype::U8,   Dtype::Bool};

/// Returns a tensor of any dtype: random numbers for floats, else arbitrary bytes.
Bytes makeTensor(int64_t count, Dtype dtype, int seed) {
  if (isFloat(dtype))
    return encode(randomValues(count, seed), dtype);
  Bytes result(count * dtypeSize(dtype));
  std::mt19937 generator(seed);
  for (char &byte : result)
    byte = char(generator() % (dtype == Dtype::Bool ? 2 : 256));
  return result;
}

std::vector<Bytes> makeMembers(int members, int64_t count, Dtype dtype) {
  std::vector<Bytes> result;
  for (int m = 0; m < members; ++m)
    result.push_back(makeTensor(count, dtype, 10 + m));
  return result;
}

Pointers insOf(const std::vector<Bytes> &members) {
  Pointers result;
  for (const Bytes &bytes : members)
    result.push_back(bytes.data());
  return result;
}

constexpr CollectiveOp::Reduction kReductions[] = {CollectiveOp::Sum, CollectiveOp::Max,
                                                   CollectiveOp::Min};

} // namespace

TEST(Reduce, MatchesCommLocalBitForBit) {
  for (Dtype dtype : everyDtype)
    for (CollectiveOp::Reduction reduction : kReductions)
      for (int members : {1, 2, 5})
        for (int64_t count : {1, 64, 1003}) {
          std::vector<Bytes> ins = makeMembers(members, count, dtype);
          if (isFloat(dtype) && dtype != Dtype::F64)
            std::memset(ins[0].data(), 0xff, dtypeSize(dtype)); // a NaN
          std::vector<Bytes> outs(members, Bytes(ins[0].size())), want = outs;
          std::vector<void *> wanted = pointersTo(want);
          Pointers from = insOf(ins);
          reduceRange(reduction, dtype, from.data(), members, wanted.data(), members, 0, count);
          runReplay(launchReduce(reduction, dtype, from, pointersTo(outs), count));
          EXPECT_EQ(outs, want) << dtypeName(dtype) << " " << reduction << " " << count;
          runReplay(launchReduce(reduction, dtype, from, pointersTo(ins), count)); // in place
          EXPECT_EQ(ins, want) << dtypeName(dtype) << " " << reduction << " " << count;
        }
}

TEST(Reduce, ReadsPointersFromMemoryForManyMembers) {
  int members = 70;
  std::vector<Bytes> ins = makeMembers(members, 100, Dtype::BF16);
  std::vector<Bytes> outs(1, Bytes(200)), want = outs;
  Pointers from = insOf(ins);
  std::vector<uint64_t> pointers;
  for (const void *in : from)
    pointers.push_back(reinterpret_cast<uint64_t>(in));
  pointers.push_back(reinterpret_cast<uint64_t>(outs[0].data()));
  void *wanted = want[0].data();
  reduceRange(CollectiveOp::Sum, Dtype::BF16, from.data(), members, &wanted, 1, 0, 100);
  runReplay(
      launchReduce(CollectiveOp::Sum, Dtype::BF16, from, pointersTo(outs), 100, pointers.data()));
  EXPECT_EQ(outs, want);
  EXPECT_THROW(launchReduce(CollectiveOp::Sum, Dtype::BF16, from, pointersTo(outs), 100),
               std::exception);
}

namespace {

CollectiveOp makeRows(CollectiveOp::Kind kind, Dtype dtype, int64_t outer, int64_t size,
                      int64_t inner) {
  CollectiveOp op;
  op.kind = kind, op.dtype = dtype, op.outer = outer, op.size = size, op.inner = inner;
  return op;
}

const std::array<int64_t, 3> kRows[] = {{1, 1, 1}, {3, 2, 8}, {5, 3, 7}, {1, 16, 64}, {7, 4, 16}};

} // namespace

TEST(ReduceScatter, GivesEachMemberItsPart) {
  int members = 3;
  for (Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::I8})
    for (auto [outer, size, inner] : kRows) {
      CollectiveOp op = makeRows(CollectiveOp::ReduceScatter, dtype, outer, size, inner);
      int64_t row = size * inner, element = dtypeSize(dtype);
      std::vector<Bytes> ins = makeMembers(members, outer * members * row, dtype);
      Bytes whole(ins[0].size());
      void *to = whole.data();
      reduceRange(op.reduction, dtype, insOf(ins).data(), members, &to, 1, 0,
                  outer * members * row);
      for (int m = 0; m < members; ++m) {
        Bytes out(outer * row * element), want;
        for (int64_t o = 0; o < outer; ++o) {
          auto begin = whole.begin() + (o * members + m) * row * element;
          want.insert(want.end(), begin, begin + row * element);
        }
        runReplay(launchReduceScatter(op, insOf(ins), m, out.data()));
        EXPECT_EQ(out, want);
      }
    }
}

TEST(AllGather, ConcatenatesParts) {
  for (int members : {1, 3, 70})
    for (Dtype dtype : {Dtype::F32, Dtype::I64, Dtype::BF16, Dtype::U8})
      for (auto [outer, size, inner] : kRows) {
        CollectiveOp op = makeRows(CollectiveOp::AllGather, dtype, outer, size, inner);
        int64_t row = size * inner * dtypeSize(dtype);
        std::vector<Bytes> ins = makeMembers(members, outer * size * inner, dtype);
        Bytes out(outer * row * members), want;
        for (int64_t o = 0; o < outer; ++o)
          for (const Bytes &in : ins)
            want.insert(want.end(), in.begin() + o * row, in.begin() + (o + 1) * row);
        runReplay(launchAllGather(op, insOf(ins), out.data()));
        EXPECT_EQ(out, want);
      }
}

TEST(AllToAll, CopiesAsPartCopyDoes) {
  struct Form {
    std::vector<int64_t> shape;
    int split, concat;
  };
  int members = 2;
  for (Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::U8})
    for (const Form &form :
         {Form{{4}, 0, 0}, Form{{4, 6}, 0, 1}, Form{{4, 6}, 1, 0}, Form{{3, 4, 5, 6, 7}, 1, 3},
          Form{{3, 4, 5, 6, 7}, 3, 1}, Form{{2, 1, 8, 1, 3, 16}, 2, 4},
          Form{{2, 1, 8, 1, 3, 16}, 5, 0}, Form{{1, 1, 8, 1, 1}, 2, 2}}) {
      int64_t count = 1;
      for (int64_t size : form.shape)
        count *= size;
      CollectiveOp op;
      op.kind = CollectiveOp::AllToAll, op.dtype = dtype, op.shape = form.shape;
      op.split = form.split, op.concat = form.concat;
      std::vector<Bytes> ins = makeMembers(members, count, dtype);
      for (int m = 0; m < members; ++m) {
        Bytes out(ins[0].size()), want(ins[0].size());
        for (int i = 0; i < members; ++i)
          PartCopy{op.shape, dtypeSize(dtype), op.split, members, m, op.concat, members, i}.run(
              ins[i].data(), want.data());
        runReplay(launchAllToAll(op, insOf(ins), m, out.data()));
        EXPECT_EQ(out, want) << form.shape.size() << " " << form.split << " " << form.concat;
      }
    }
}

TEST(ShardSlice, PadsWithZeros) {
  for (Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::U8, Dtype::F64})
    for (auto [outer, size, inner] : kRows)
      for (int64_t whole : {2 * size + 1, 3 * size, size})
        for (int member = 0; member < 3; ++member) {
          CollectiveOp op = makeRows(CollectiveOp::ShardSlice, dtype, outer, size, inner);
          op.whole = whole;
          Bytes in = makeTensor(outer * whole * inner, dtype, 3);
          Bytes out(outer * size * inner * dtypeSize(dtype), 7), want = out;
          sliceShard(op, member, in.data(), want.data());
          runReplay(launchShardSlice(op, member, in.data(), out.data()));
          EXPECT_EQ(out, want);
        }
}

TEST(SmallWrites, WriteTheirValues) {
  std::vector<int64_t> index(2);
  runReplay(launchShardIndex(&index[0], 77));
  EXPECT_EQ(index, (std::vector<int64_t>{77, 0}));
  for (int64_t bytes : {1, 15, 16, 1000}) {
    Bytes out(bytes + 2, 1), want(bytes + 2, 0);
    want.front() = want.back() = 1;
    runReplay(launchZero(out.data() + 1, bytes));
    EXPECT_EQ(out, want);
  }
}
