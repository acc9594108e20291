"""Every operator that MIGraphX's importer knows has a handler here."""

from workbench.compiler.onnx import operators

NAMES = """
    ATen Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool
    BatchNormalization BiasAdd BiasGelu BiasSplitGelu BitwiseAnd Cast CastLike Ceil Celu Clip
    Concat Constant ConstantFill ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumSum
    DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear DynamicScale Einsum Elu Equal
    Erf Exp Expand EyeLike FastGelu Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm
    GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNorm
    GroupNormalization GroupQueryAttention HardSigmoid HardSwish Hardmax Identity If ImageScaler
    InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log
    LogSoftmax Loop LpNormalization LpPool MXFixNeuron MXQuantizeDequantize MatMul MatMulBnb4
    MatMulInteger MatMulIntegerToFloat MatMulNBits Max MaxPool Mean MeanVarianceNormalization Min
    Mod Mul MultiHeadAttention Multinomial Neg NegativeLogLikelihoodLoss NhwcConv NonMaxSuppression
    NonZero Not OneHot Or PRelu Pad Pow QLinearAdd QLinearAveragePool QLinearConcat QLinearConv
    QLinearGlobalAveragePool QLinearLeakyRelu QLinearMatMul QLinearMul QLinearSigmoid
    QuantizeLinear QuickGelu RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike
    Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign
    RotaryEmbedding Round Scan Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign
    SimplifiedLayerNormalization Sin Sinh Size SkipLayerNormalization
    SkipSimplifiedLayerNormalization Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign
    SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu
    Unique Unsqueeze Upsample Where Xor
"""


def test_each_of_migraphx_s_names_has_a_handler():
    names = NAMES.split()
    assert len(names) == 185
    assert set(names) <= set(operators())
