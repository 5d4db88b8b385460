// Draws inputs for regression: 2 steps of 4 micro-batches of 4 samples. A sample is a vector of 6
// elements, and its target has 8.
module {
  ps.variable buffer @drawn.x init #ps.distribution<normal, 0.0, 1.0> : tensor<32x6xf32>
  ps.variable buffer @drawn.target init #ps.distribution<normal, 0.0, 1.0> : tensor<32x8xf32>
  func.func @forward() -> (tensor<32x6xf32> {ps.name = "x"}, tensor<32x8xf32> {ps.name = "target"}) {
    %x = ps.read @drawn.x : tensor<32x6xf32>
    %y = ps.read @drawn.target : tensor<32x8xf32>
    return %x, %y : tensor<32x6xf32>, tensor<32x8xf32>
  }
}
