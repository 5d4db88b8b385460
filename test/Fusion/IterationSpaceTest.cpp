// Tests the iteration spaces of groups of ops: sizes, strides of operands and results, and the
// reasons why ops do not fit one space.
#include "lib/Fusion/IterationSpace.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;

namespace {

using Sizes = std::vector<int64_t>;

class IterationSpaceTest : public testing::Test {
protected:
  /// Analyzes the ops of a function, whose returned values are the outputs.
  bool analyze(const std::string &arguments, const std::string &body, const std::string &returned,
               const std::string &types, ArrayRef<OutputRequest> parts = {}) {
    context.loadDialect<ps::PSDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>("func.func @f(" + arguments + ") -> (" + types + ") {\n" +
                                             body + "\nreturn " + returned + " : " + types + "\n}",
                                         &context);
    if (!module)
      return false;
    function = *module->getOps<func::FuncOp>().begin();
    Block &block = function.getBody().front();
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
    SmallVector<OutputRequest> outputs(parts);
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      if (i < outputs.size())
        outputs[i].value = value;
      else
        outputs.push_back({value, cast<RankedTensorType>(value.getType()), {}, {}});
    return succeeded(space.analyze(ops, outputs));
  }

  Operation *getOp(unsigned i) { return &*std::next(function.getBody().front().begin(), i); }
  /// Returns the strides with which op `i` reads its operand, by dim of the space.
  Sizes getStrides(unsigned i, unsigned operand = 0) {
    return toVector(space.getAccess(getOp(i)->getOpOperand(operand)).strides);
  }
  Sizes getSizes() { return toVector(space.getSizes()); }
  Sizes getOutputStrides(unsigned i = 0) { return toVector(space.getOutputs()[i].buffer.strides); }
  static Sizes toVector(ArrayRef<int64_t> values) { return Sizes(values.begin(), values.end()); }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  IterationSpace space;
};

TEST_F(IterationSpaceTest, ElementwiseOpsAreOneFlatDim) {
  ASSERT_TRUE(analyze("%x: tensor<4x8xf32>", R"(
    %0 = ps.exp %x : tensor<4x8xf32>
    %1 = ps.neg %0 : tensor<4x8xf32>)",
                      "%1", "tensor<4x8xf32>"));
  EXPECT_TRUE(space.isFlat());
  EXPECT_EQ(getSizes(), (Sizes{32}));
  EXPECT_EQ(getStrides(0), (Sizes{1}));
  EXPECT_EQ(space.getComputeOps().size(), 2u);
}

TEST_F(IterationSpaceTest, AReshapeBetweenOpsIsReadThrough) {
  ASSERT_TRUE(analyze("%x: tensor<6x4xf32>", R"(
    %0 = ps.exp %x : tensor<6x4xf32>
    %1 = ps.reshape %0 : tensor<6x4xf32> -> tensor<2x12xf32>
    %2 = ps.neg %1 : tensor<2x12xf32>)",
                      "%2", "tensor<2x12xf32>"));
  EXPECT_EQ(getSizes(), (Sizes{24}));
  EXPECT_EQ(space.getComputeOps().size(), 2u);
}

TEST_F(IterationSpaceTest, ATransposedOperandIsReadWithItsStrides) {
  ASSERT_TRUE(analyze("%x: tensor<8x4xf32>, %y: tensor<4x8xf32>", R"(
    %0 = ps.transpose %x [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
    %1 = ps.add %0, %y : tensor<4x8xf32>)",
                      "%1", "tensor<4x8xf32>"));
  EXPECT_EQ(getSizes(), (Sizes{4, 8}));
  EXPECT_EQ(getStrides(1, 0), (Sizes{1, 4}));
  EXPECT_EQ(getStrides(1, 1), (Sizes{8, 1}));
  EXPECT_EQ(getOutputStrides(), (Sizes{8, 1}));
}

TEST_F(IterationSpaceTest, ABroadcastOperandHasStrideZero) {
  ASSERT_TRUE(analyze("%x: tensor<4x8xf32>, %b: tensor<8xf32>", R"(
    %0 = ps.broadcast %b dims [1] : tensor<8xf32> -> tensor<4x8xf32>
    %1 = ps.add %x, %0 : tensor<4x8xf32>)",
                      "%1", "tensor<4x8xf32>"));
  EXPECT_EQ(getSizes(), (Sizes{4, 8}));
  EXPECT_EQ(getStrides(1, 1), (Sizes{0, 1}));
}

TEST_F(IterationSpaceTest, ASliceIsAnOffsetAndStrides) {
  ASSERT_TRUE(analyze("%x: tensor<6x8xf32>", R"(
    %0 = ps.slice %x [1, 2] to [5, 8] by [2, 3] : tensor<6x8xf32> -> tensor<2x2xf32>
    %1 = ps.exp %0 : tensor<2x2xf32>)",
                      "%1", "tensor<2x2xf32>"));
  EXPECT_EQ(getSizes(), (Sizes{2, 2}));
  EXPECT_EQ(getStrides(1), (Sizes{16, 3}));
  EXPECT_EQ(space.getAccess(getOp(1)->getOpOperand(0)).offset, 10);
}

TEST_F(IterationSpaceTest, ARowOpSeparatesRowsAndColumns) {
  ASSERT_TRUE(analyze("%x: tensor<2x4x8xf32>, %w: tensor<8xf32>", R"(
    %0, %r = ps.layer_norm %x epsilon 1.0e-5 : tensor<2x4x8xf32> -> tensor<2x4x8xf32>, tensor<2x4xf32>
    %1 = ps.broadcast %w dims [2] : tensor<8xf32> -> tensor<2x4x8xf32>
    %2 = ps.mul %0, %1 : tensor<2x4x8xf32>)",
                      "%2, %r", "tensor<2x4x8xf32>, tensor<2x4xf32>"));
  EXPECT_TRUE(space.hasRowOps());
  EXPECT_FALSE(space.isFlat());
  EXPECT_EQ(getSizes(), (Sizes{8, 8})) << "the two dims of rows are one";
  EXPECT_EQ(space.getRows(), 8);
  EXPECT_EQ(space.getColumns(), 8);
  EXPECT_EQ(getOutputStrides(0), (Sizes{8, 1}));
  EXPECT_EQ(getOutputStrides(1), (Sizes{1, 0})) << "one value per row";
  EXPECT_TRUE(space.hasColumns(getOp(0)->getResult(0)));
  EXPECT_FALSE(space.hasColumns(getOp(0)->getResult(1)));
}

TEST_F(IterationSpaceTest, AReductionOfTheLastDimIsOverColumns) {
  ASSERT_TRUE(analyze("%x: tensor<4x8xf32>", R"(
    %0 = ps.exp %x : tensor<4x8xf32>
    %1 = ps.reduce sum %0 dims [1] : tensor<4x8xf32> -> tensor<4xf32>)",
                      "%1", "tensor<4xf32>"));
  EXPECT_EQ(getSizes(), (Sizes{4, 8}));
  EXPECT_EQ(space.getLayout(getOp(1)), ReductionLayout::Row);
  EXPECT_FALSE(space.hasColumnReduction());
}

TEST_F(IterationSpaceTest, AReductionOfTheFirstDimIsOverChunksOfRows) {
  ASSERT_TRUE(analyze("%x: tensor<200x8xf32>", R"(
    %0 = ps.exp %x : tensor<200x8xf32>
    %1 = ps.reduce sum %0 dims [0] : tensor<200x8xf32> -> tensor<8xf32>)",
                      "%0, %1", "tensor<200x8xf32>, tensor<8xf32>"));
  EXPECT_EQ(space.getLayout(getOp(1)), ReductionLayout::Column);
  EXPECT_TRUE(space.hasColumnReduction());
  EXPECT_EQ(space.getChunkRows(), 128);
  EXPECT_EQ(space.getChunks(), 2);
}

TEST_F(IterationSpaceTest, AReductionOfAMiddleDimKeepsTheOuterOne) {
  ASSERT_TRUE(analyze("%x: tensor<4x3x8xf32>", R"(
    %0 = ps.reduce sum %x dims [1] : tensor<4x3x8xf32> -> tensor<4x8xf32>)",
                      "%0", "tensor<4x8xf32>"));
  EXPECT_EQ(getSizes(), (Sizes{4, 3, 8}));
  EXPECT_EQ(space.getChunksPerResult(), 1);
  EXPECT_EQ(space.getChunks(), 4);
}

TEST_F(IterationSpaceTest, APartOfAConcatenationIsAnOffsetInTheBuffer) {
  OutputRequest part;
  context.loadDialect<ps::PSDialect>();
  part.bufferType = RankedTensorType::get({4, 10}, Float32Type::get(&context));
  part.offsets = {0, 6};
  part.scales = {1, 1};
  ASSERT_TRUE(analyze("%x: tensor<4x4xf32>", "%0 = ps.exp %x : tensor<4x4xf32>", "%0",
                      "tensor<4x4xf32>", part));
  EXPECT_EQ(getSizes(), (Sizes{4, 4})) << "rows of the buffer are longer than those of the part";
  EXPECT_EQ(getOutputStrides(), (Sizes{10, 1}));
  EXPECT_EQ(space.getOutputs()[0].buffer.offset, 6);
}

TEST_F(IterationSpaceTest, AValueReadAtTwoIndicesDoesNotFit) {
  EXPECT_FALSE(analyze("%x: tensor<4x4xf32>", R"(
    %0 = ps.exp %x : tensor<4x4xf32>
    %1 = ps.transpose %0 [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
    %2 = ps.add %0, %1 : tensor<4x4xf32>)",
                       "%2", "tensor<4x4xf32>"));
  EXPECT_EQ(space.getReason().str(), "one loop runs over two dims of a value");
}

TEST_F(IterationSpaceTest, AComputedValueThatIsSlicedDoesNotFit) {
  EXPECT_FALSE(analyze("%x: tensor<8xf32>", R"(
    %0 = ps.exp %x : tensor<8xf32>
    %1 = ps.slice %0 [2] to [6] by [1] : tensor<8xf32> -> tensor<4xf32>
    %2 = ps.neg %1 : tensor<4xf32>)",
                       "%2", "tensor<4xf32>"));
  EXPECT_EQ(space.getReason().str(), "a value is read at two different indices");
}

TEST_F(IterationSpaceTest, AUseOfASumOverRowsDoesNotFit) {
  EXPECT_FALSE(analyze("%x: tensor<4x8xf32>", R"(
    %0 = ps.exp %x : tensor<4x8xf32>
    %1 = ps.reduce sum %0 dims [0] : tensor<4x8xf32> -> tensor<8xf32>
    %2 = ps.broadcast %1 dims [1] : tensor<8xf32> -> tensor<4x8xf32>
    %3 = ps.sub %0, %2 : tensor<4x8xf32>)",
                       "%3", "tensor<4x8xf32>"));
  EXPECT_EQ(space.getReason().str(), "a sum over rows is used in its own group");
}

/// The sum and the difference both read a value from outside the group, so their rows may differ.
TEST_F(IterationSpaceTest, ASumOverOtherRowsDoesNotFit) {
  EXPECT_FALSE(analyze("%x: tensor<4x8xf32>", R"(
    %0 = ps.reduce sum %x dims [0] : tensor<4x8xf32> -> tensor<8xf32>
    %1 = ps.broadcast %0 dims [1] : tensor<8xf32> -> tensor<4x8xf32>
    %2 = ps.sub %x, %1 : tensor<4x8xf32>)",
                       "%2", "tensor<4x8xf32>"));
  EXPECT_EQ(space.getReason().str(), "a sum over rows that do not vary along all dims");
}

TEST_F(IterationSpaceTest, ReductionsOverRowsAndOverColumnsDoNotFit) {
  EXPECT_FALSE(analyze("%x: tensor<4x8xf32>", R"(
    %0 = ps.reduce sum %x dims [0] : tensor<4x8xf32> -> tensor<8xf32>
    %1 = ps.reduce sum %x dims [0, 1] : tensor<4x8xf32> -> tensor<f32>)",
                       "%0, %1", "tensor<8xf32>, tensor<f32>"));
  EXPECT_EQ(space.getReason().str(), "ops need different columns");
}

TEST_F(IterationSpaceTest, MoreThan64BitsOfIterationsDoNotFit) {
  EXPECT_FALSE(analyze("%a: tensor<4294967296xi8>, %b: tensor<4294967296xi8>", R"(
    %0 = ps.broadcast %a dims [0] : tensor<4294967296xi8> -> tensor<4294967296x4294967296xi8>
    %1 = ps.broadcast %b dims [1] : tensor<4294967296xi8> -> tensor<4294967296x4294967296xi8>
    %2 = ps.add %0, %1 : tensor<4294967296x4294967296xi8>)",
                       "%2", "tensor<4294967296x4294967296xi8>"));
  EXPECT_EQ(space.getReason().str(), "the number of iterations exceeds 64 bits");
}

} // namespace
