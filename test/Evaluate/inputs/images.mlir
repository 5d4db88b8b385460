// Draws inputs for image classifiers: 2 steps of 4 micro-batches of 4 samples. A sample has 2
// channels of 6 x 6 pixels, and one of 5 classes.
module {
  ps.variable buffer @drawn.x init #ps.distribution<normal, 0.0, 1.0> : tensor<32x2x6x6xf32>
  ps.variable buffer @drawn.labels init #ps.distribution<uniform, 0.0, 5.0> : tensor<32xf32>
  func.func @forward() -> (tensor<32x2x6x6xf32> {ps.name = "x"}, tensor<32xi64> {ps.name = "labels"}) {
    %x = ps.read @drawn.x : tensor<32x2x6x6xf32>
    %y = ps.read @drawn.labels : tensor<32xf32>
    %labels = ps.convert %y : tensor<32xf32> -> tensor<32xi64>
    return %x, %labels : tensor<32x2x6x6xf32>, tensor<32xi64>
  }
}
