"""The shapes of the trainable variables of two well-known networks."""


def resnet50(classes=1000):
    """The 161 variables of ResNet-50: kernels, gammas and betas, and the classifier."""
    shapes = _convolution(7, 3, 64)
    inputs = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        outputs = 4 * width
        for block in range(blocks):
            if block == 0:  # the shortcut changes the number of channels
                shapes += _convolution(1, inputs, outputs)
            shapes += _convolution(1, inputs, width)
            shapes += _convolution(3, width, width)
            shapes += _convolution(1, width, outputs)
            inputs = outputs
    return [*shapes, (inputs, classes), (classes,)]


def _convolution(size, inputs, outputs):
    """A kernel without bias, and the gamma and beta of its batch normalization."""
    return [(size, size, inputs, outputs), (outputs,), (outputs,)]


def bert_base(layers=12, width=768, vocabulary=30522, positions=512):
    """The 199 variables of BERT-base: embeddings, encoder layers, pooler."""
    dense, norm = [(width, width), (width,)], [(width,), (width,)]
    shapes = [(vocabulary, width), (positions, width), (2, width), *norm]
    for _ in range(layers):
        shapes += [*dense * 4, *norm]  # query, key, value, output
        shapes += [(width, 4 * width), (4 * width,), (4 * width, width), (width,)]
        shapes += norm
    return [*shapes, *dense]
