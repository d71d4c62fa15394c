"""Texts with several labels each, through scikit-learn's tools: run it with `python`.

Needs `pip install 'labelset[sklearn]'`.
"""

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MultiLabelBinarizer

from labelset.sklearn import CalibratedLabels, DecidedLabels, MultiLabelClassifier, scorer

TOPICS = {
    "cooking": ["oven", "salt", "butter", "pan", "recipe"],
    "garden": ["soil", "seed", "rose", "spade", "rain"],
    "sailing": ["wind", "rope", "harbour", "deck", "rain"],
    "music": ["violin", "song", "choir", "tune", "deck"],
}
PLAIN = ["the", "day", "we", "then", "much", "little", "again", "house", "went", "old"]


def letters(rows: int, seed: int) -> tuple[list[str], list[list[str]]]:
    """Texts, and the topics that each is about; common topics first, the last one is rare."""
    draw = np.random.default_rng(seed)
    chance = [0.4, 0.3, 0.15, 0.05]
    texts, topics = [], []
    for _ in range(rows):
        about = [t for t, p in zip(TOPICS, chance, strict=True) if draw.random() < p]
        words = list(draw.choice(PLAIN, 8))
        for topic in about:
            words += list(draw.choice(TOPICS[topic], 2))
        texts.append(" ".join(draw.permutation(words)))
        topics.append(about)
    return texts, topics


def main() -> dict[str, float]:
    """Print macro F1 on test texts, for three ways to decide."""
    texts, topics = letters(600, seed=0)
    binarizer = MultiLabelBinarizer(sparse_output=True)
    y = binarizer.fit_transform(topics)
    seen, unseen, y_seen, y_unseen = train_test_split(texts, y, test_size=200, random_state=0)
    f1 = scorer("f1-macro")

    words = ("words", TfidfVectorizer())
    model = Pipeline([words, ("labels", MultiLabelClassifier(random_state=0))])
    grid = {"labels__loss": ["bce", "asl"], "labels__decide": [None, "per-class"]}
    search = GridSearchCV(model, grid, cv=2, scoring=f1).fit(seen, y_seen)

    forest = Pipeline([words, ("forest", RandomForestClassifier(n_estimators=20, random_state=0))])
    dense = y_seen.toarray()  # a forest wants it so
    plain = forest.fit(seen, dense)
    tuned = DecidedLabels(CalibratedLabels(forest, cv=2, random_state=0), cv=2, random_state=0).fit(
        seen, dense
    )

    found = {
        f"labelset, {search.best_params_}": f1(search, unseen, y_unseen),
        "random forest": f1(plain, unseen, y_unseen),
        "random forest, calibrated, a threshold per label": f1(tuned, unseen, y_unseen),
    }
    for name, value in found.items():
        print(f"{value:.3f}  {name}")
    return found


if __name__ == "__main__":
    main()
