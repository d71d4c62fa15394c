"""Random shapes, dtypes, hyperparameters and label patterns."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from labelset import Labels, NoLink, losses
from labelset.testing.cases import value_and_grad

POSITIVE = st.floats(0.05, 8.0)
GAMMA = st.floats(0.0, 6.0)
AVERAGE = st.sampled_from(["macro", "micro", "weighted", "samples"])
SETTINGS = {
    "bce": st.fixed_dictionaries(
        {"pos_weight": POSITIVE, "neg_weight": POSITIVE, "smoothing": st.floats(0, 0.9)}
    ),
    "wan": st.just({}),
    "mse": st.just({}),
    "squared-hinge": st.fixed_dictionaries({"margin": POSITIVE}),
    "focal": st.fixed_dictionaries({"gamma": GAMMA, "alpha_pos": POSITIVE, "alpha_neg": POSITIVE}),
    "asl": st.fixed_dictionaries(
        {
            "gamma_pos": GAMMA,
            "gamma_neg": GAMMA,
            "margin": st.floats(0, 0.9),
            "detach_weight": st.booleans(),
        }
    ),
    "focal-margin": st.fixed_dictionaries({"gamma": GAMMA, "margin": st.floats(0, 3)}),
    "hill": st.fixed_dictionaries(
        {"lam": st.floats(1, 3), "margin": st.floats(0, 3), "gamma": GAMMA}
    ),
    "spa": st.fixed_dictionaries(
        {
            "zeta_pos": POSITIVE,
            "k_pos": POSITIVE,
            "b_pos": st.floats(-3, 3),
            "zeta_neg": POSITIVE,
            "k_neg": POSITIVE,
            "b_neg": st.floats(-3, 3),
        }
    ),
    "splc": st.fixed_dictionaries(
        {"base": st.sampled_from(["bce", "focal", "asl", "hill"]), "tau": st.floats(0.5, 0.95)}
    ),
    "two-way": st.fixed_dictionaries(
        {
            "temperature": POSITIVE,
            "temperature_neg": POSITIVE,
            "way": st.sampled_from(["both", "class", "sample", "joint"]),
        }
    ),
    "softmax": st.fixed_dictionaries({"way": st.sampled_from(["both", "class", "sample"])}),
    "multi-similarity": st.fixed_dictionaries(
        {"temperature": POSITIVE, "way": st.sampled_from(["both", "class", "sample"])}
    ),
    "sigmoid-f1": st.fixed_dictionaries(
        {"beta": st.floats(0.1, 30), "eta": st.floats(-2, 2), "average": AVERAGE}
    ),
    "smooth": st.fixed_dictionaries(
        {
            "metric": st.sampled_from(["fbeta", "jaccard", "accuracy", "precision", "npv"]),
            "beta": st.floats(0.1, 30),
            "f_beta": POSITIVE,
            "average": AVERAGE,
        }
    ),
    "lpr": st.fixed_dictionaries({"of": st.sampled_from(["bce", "spa", "focal", "asl", "wan"])}),
    "spa+lpr": st.fixed_dictionaries({"lam": st.floats(0, 3), "k_neg": POSITIVE}),
}
LOSSES = st.one_of(
    *(st.tuples(st.just(name), settings) for name, settings in SETTINGS.items())
).map(lambda pair: losses.build(pair[0], **pair[1]))
SCORE = st.one_of(
    st.floats(-8, 8), st.sampled_from([-1e4, -700.0, -89.0, -17.0, 0.0, 17.0, 40.0, 1e4])
)


@st.composite
def batch(draw):
    rows, labels = draw(st.integers(0, 5)), draw(st.integers(1, 5))
    dtype = draw(st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]))
    kinds = draw(st.sampled_from([(0.0, 1.0), (0.0, 1.0, float("nan")), (0.0, 0.25, 1.0)]))
    size = rows * labels
    scores = draw(st.lists(SCORE, min_size=size, max_size=size))
    values = draw(st.lists(st.sampled_from(kinds), min_size=size, max_size=size))
    shape = (rows, labels)
    return torch.tensor(scores, dtype=dtype).reshape(shape), torch.tensor(values).reshape(shape)


@given(LOSSES, batch())
def test_value_and_gradient_are_finite_and_never_negative(loss, given_batch):
    v, y = given_batch
    value, grad = value_and_grad(loss, v, y)
    assert value.isfinite()
    assert float(value) >= -1e-5
    assert grad.isfinite().all()
    assert (grad[y.isnan()] == 0).all()
    assert value.dtype == (torch.float64 if v.dtype == torch.float64 else torch.float32)


@given(LOSSES, batch())
def test_sparse_and_dense_agree(loss, given_batch):
    v, y = given_batch
    dense, sparse = value_and_grad(loss, v, y), value_and_grad(loss, v, Labels.from_dense(y))
    torch.testing.assert_close(sparse[0], dense[0])
    torch.testing.assert_close(sparse[1], dense[1])


@given(LOSSES, batch())
def test_float32_follows_float64(loss, given_batch):
    v, y = given_batch
    low, high = loss(v, y), loss(v.double(), y)
    torch.testing.assert_close(low.double(), high, rtol=2e-3, atol=1e-4)


@given(LOSSES, st.lists(SCORE, min_size=2, max_size=20))
def test_links_rise_within_the_unit_interval(loss, scores):
    v = torch.tensor(sorted(scores), dtype=torch.float64)[:, None]
    try:
        p = loss.link(v)
    except NoLink:
        return
    assert ((p >= 0) & (p <= 1)).all()
    assert (p.diff(dim=0) >= -1e-12).all()
