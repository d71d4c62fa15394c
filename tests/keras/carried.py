"""Run by the tests with one back end each: what Keras makes of every loss, as numbers in a file."""

import sys

import numpy as np

import labelset.keras as lk
from labelset import losses

FAR = 100.0


def data():
    """Logits and labels: soft, unknown, and far out; the logits of unknown labels are NaN."""
    draw = np.random.default_rng(0)
    v = draw.normal(size=(24, 5)).astype("float32") * 4
    y = (draw.random((24, 5)) < 0.4).astype("float32")
    v[:2], y[0], y[1] = [-FAR, -30, 0, 30, FAR], 0, 1
    y[5] = draw.random(5)
    y[6, :3], v[6, :2] = np.nan, np.nan
    return v, y


def cases():
    """(key, loss): every loss that Keras can have, with the settings that the laws try."""
    for name in lk.names():
        for k, settings in enumerate(losses.catalog.get(name).examples):
            yield f"{name} {k}", losses.build(name, **settings)
    weights = [1.0, 2.0, 0.5, 3.0, 1.0]
    yield "per label", losses.build("bce", pos_weight=weights)
    yield "sum", losses.build("focal", reduction="sum")
    yield "none", losses.build("spa", reduction="none")
    yield "metric none", losses.build("sigmoid-f1", reduction="none", beta=weights)
    yield "detached", losses.build("asl", gamma_pos=1.5, detach_weight=True)


def value_and_gradient(loss, v, y):
    """By the back end's own differentiation."""
    import keras

    def total(x):
        return keras.ops.sum(loss(y, x))

    if keras.backend.backend() == "jax":
        import jax

        return np.asarray(loss(y, v)), np.asarray(jax.grad(total)(v))
    if keras.backend.backend() == "tensorflow":
        import tensorflow

        x = tensorflow.Variable(v)
        with tensorflow.GradientTape() as tape:
            value = total(x)
        return np.asarray(loss(y, v)), np.asarray(tape.gradient(value, x))
    import torch

    x = torch.tensor(v, requires_grad=True)
    total(x).backward()
    return loss(y, v).detach().numpy(), x.grad.numpy()


def trained(loss, path):
    """The losses of a few epochs of `fit`, and what a saved model gives when read back."""
    import keras

    keras.utils.set_random_seed(0)
    draw = np.random.default_rng(1)
    x = draw.normal(size=(256, 8)).astype("float32")
    y = (x @ draw.normal(size=(8, 5)) > 0.5).astype("float32")
    y[::9, 0] = np.nan
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(5)])
    model.compile(optimizer=keras.optimizers.Adam(0.05), loss=loss)
    seen = model.fit(x, y, epochs=4, batch_size=64, verbose=0).history["loss"]
    model.save(path)
    again = keras.models.load_model(path)
    assert type(again.loss) is type(loss)
    assert again.loss.get_config() == loss.get_config()
    return np.array([*seen, again.evaluate(x, y, verbose=0), model.evaluate(x, y, verbose=0)])


def main(folder):
    v, y = data()
    found = {}
    for key, loss in cases():
        value, gradient = value_and_gradient(lk.of(loss), v, y)
        found |= {f"value {key}": value, f"gradient {key}": gradient}
        if loss.link_missing() is None:
            wide = np.nan_to_num(v)
            found[f"link {key}"] = np.asarray(lk.Link(loss)(wide))
    for name in ("asl", "sigmoid-f1"):
        found[f"fit {name}"] = trained(lk.build(name), f"{folder}/{name}.keras")
    np.savez(f"{folder}/found.npz", **found)


if __name__ == "__main__":
    main(sys.argv[1])
