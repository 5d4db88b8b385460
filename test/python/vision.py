"""Tiny models of images: a ResNet, a MobileNet with depthwise convolutions, a U-Net, and Hugging Face's ViT."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Model


def convolution(inside, outside, size=3, stride=1, **options):
    """A convolution and a batch norm. The convolution has no bias: the batch norm would cancel it."""
    layer = nn.Conv2d(inside, outside, size, stride, padding=size // 2, bias=False, **options)
    return nn.Sequential(layer, nn.BatchNorm2d(outside))


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.first, self.second = convolution(inside, outside, stride=stride), convolution(outside, outside)
        self.downsample = convolution(inside, outside, 1, stride) if stride > 1 or inside != outside else None

    def forward(self, x):
        y = self.second(F.relu(self.first(x), inplace=True))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class ByDepth(nn.Module):
    """The block of MobileNet: a depthwise convolution, then a pointwise one."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.depth = convolution(inside, inside, stride=stride, groups=inside)
        self.point = convolution(inside, outside, 1)

    def forward(self, x):
        return F.hardswish(self.point(F.relu6(self.depth(x))))


class Classifier(nn.Module):
    """A stem with pooling, two stages, the average over all positions, and a linear layer."""

    def __init__(self, block, width=8, classes=10):
        super().__init__()
        self.stem = convolution(3, width)
        self.stages = nn.Sequential(block(width, width, 1), block(width, 2 * width, 2))
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, pixels, labels):
        x = F.max_pool2d(F.relu(self.stem(pixels)), 3, 2, 1)
        x = F.adaptive_avg_pool2d(self.stages(x), 1).flatten(1)
        logits = self.fc(x)
        return F.cross_entropy(logits, labels), logits


class UNet(nn.Module):
    """A U-Net: max and average pooling on the way down, a transposed convolution and nearest interpolation on the way up, and long skips."""

    def __init__(self, width=6, classes=4):
        super().__init__()
        self.down_1, self.down_2 = convolution(3, width), convolution(width, 2 * width)
        self.middle = nn.Sequential(nn.Conv2d(2 * width, 2 * width, 3, padding=2, dilation=2), nn.GroupNorm(2, 2 * width))
        self.up_2 = nn.ConvTranspose2d(2 * width, 2 * width, 2, stride=2)
        self.merge_2, self.merge_1 = convolution(4 * width, width), convolution(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, pixels, labels):
        skip_1 = F.relu(self.down_1(pixels))
        skip_2 = F.relu(self.down_2(F.max_pool2d(skip_1, 2)))
        x = F.silu(self.middle(F.avg_pool2d(skip_2, 3, 2, 1)))
        x = F.relu(self.merge_2(torch.cat([self.up_2(x), skip_2], 1)))
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        logits = self.head(F.relu(self.merge_1(torch.cat([x, skip_1], 1))))
        return F.cross_entropy(logits, labels), logits


def settle(module, inputs):
    """Runs some batches in training mode, so that the running statistics differ from their initial values. Returns the module."""
    with torch.no_grad():
        for scale in (0.5, 2.0):
            module(inputs["pixels"] * scale + 0.3, inputs["labels"])
    return module


def make(name, module, labels, batch=8, size=16, decompositions=None):
    generator = torch.Generator().manual_seed(1)
    inputs = {"pixels": torch.randn(batch, 3, size, size, generator=generator),
              "labels": torch.randint(0, 4, (batch, *labels), generator=generator)}
    return Model(name, settle(module.train(), inputs), inputs, decompositions, None, 4, has_statistics=True)


def resnet(**options):
    torch.manual_seed(0)
    return make("resnet", Classifier(Residual), (), **options)


def resnet_core():
    return resnet(decompositions="core")


def mobile():
    torch.manual_seed(0)
    return make("mobile", Classifier(ByDepth), ())


def unet():
    torch.manual_seed(0)
    return make("unet", UNet(), (16, 16))


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    config = ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=16,
                       patch_size=4, num_labels=10, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                       problem_type="single_label_classification")  # fmt: skip
    generator = torch.Generator().manual_seed(1)
    inputs = {"pixel_values": torch.randn(8, 3, 16, 16, generator=generator),
              "labels": torch.randint(0, 10, (8,), generator=generator)}
    return Model("vit", ViTForImageClassification(config).train(), inputs, "empty", None, 10)


MODELS = {f.__name__: f for f in (resnet, resnet_core, mobile, unet, vit)}
