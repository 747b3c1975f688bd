"""Where the numbers come from: enough to make them again."""

from surefind.reports.intervals import MANY, SOME
from surefind.reports.result import About

HOW_SURE = (
    "Brackets hold 95 % intervals: the queries were drawn again with replacement "
    "{resamples:,} times, and the middle 95 % of the outcomes is shown."
)
OF_SOME = f" Of so many queries, {SOME:,} were drawn from, and the widths scaled to all."


def facts(about: About) -> dict[str, str]:
    """Names and values, in reading order; what is unknown is left out."""
    found = {
        "Data": f"{about.data_name}, {about.part} ({about.data})",
        "Protocol": about.protocol,
        "Queries": f"{about.queries:,} scored, gallery of {about.gallery:,}",
        "Classes": f"{about.classes:,}" if about.classes else "none: matches are by position",
        "Foreign queries": f"{about.foreign_queries:,} of {about.foreign}" if about.foreign else "",
        "Model": f"{about.model} ({about.family}, {about.dim:,} dimensions)",
        "Fingerprint": about.fingerprint,
        "Cut-offs k": ", ".join(str(k) for k in about.ks),
        "Intervals": HOW_SURE.format(resamples=about.resamples)
        + (OF_SOME if about.queries > MANY else ""),
        "Date": about.date,
        "Time taken": f"{about.seconds:,.1f} s",
        "Versions": ", ".join(f"{name} {version}" for name, version in about.versions.items()),
    }
    return {name: value for name, value in found.items() if value}
