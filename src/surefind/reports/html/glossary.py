"""What the words of the page mean."""

GLOSSARY = {
    "query, gallery, hit, match": (
        "A query is a picture that asks; the gallery is what is searched; a hit is a picture "
        "that is returned; a match is one that truly belongs to the query."
    ),
    "R@k": "Share of queries with at least one match among the k nearest.",
    "mAP@k": (
        "Mean over queries of AP@k: how many of the first k are matches, and how far in front "
        "they stand. 100 % if all matches come first."
    ),
    "P@k": "Share of matches among the first k.",
    "MAP@R": "Like mAP, each query cut off at its own number of matches R.",
    "signal, uncertainty": (
        "A number per query; higher is less sure. Learned ones come from the variance that the "
        "model was trained to give, training-free ones from distances that any model has."
    ),
    "AUROC": (
        "Chance that a wrong top hit has a higher uncertainty than a right one. 0.5 is "
        "guessing, 1 is perfect."
    ),
    "AUPR": (
        "Area under precision over recall when wrong top hits are sought by uncertainty. "
        "Guessing gives the share of wrong ones."
    ),
    "risk at 80 %": "Share of wrong answers when only the surest 80 % of the queries are answered.",
    "AURC, E-AURC": (
        "Area under the curve of risk over coverage; E-AURC is how much of it a perfect order "
        "of the queries would have saved."
    ),
    "Spearman, Kendall": (
        "Rank correlation of the uncertainty with the error, one minus AP@k. 0 is no relation, "
        "1 is the same order."
    ),
    "cross-fitted probability": (
        "A signal turned into the probability that the top hit is right; the map for each query "
        "was fitted on other queries."
    ),
    "ECE": (
        "Expected calibration error: how far stated confidence and outcome lie apart on average."
    ),
    "Brier, NLL": "Penalties for probabilities; both reward saying just what is known.",
    "OOD, foreign": "Out of distribution: queries from other data, which have no match here.",
    "FPR95": "Share of own queries that are turned away when 95 % of the foreign ones are.",
}
