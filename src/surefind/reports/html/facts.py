"""Where the numbers come from: enough to make them again."""

from surefind.reports.intervals import share_resampled
from surefind.reports.result import About


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
        "Intervals": _intervals(about),
        "Date": about.date,
        "Time taken": f"{about.seconds:,.1f} s",
        "Versions": ", ".join(f"{name} {version}" for name, version in about.versions.items()),
    }
    return {name: value for name, value in found.items() if value}


def _intervals(about: About) -> str:
    classes = about.resampled_classes
    drawn = f"the {classes:,} classes, each with all its queries," if classes else "the queries"
    share = share_resampled(about.queries, classes or about.queries)
    some = f" Only {100 * share:.0f} % of them were drawn from, and the widths scaled to all."
    return (
        f"Brackets hold 95 % bootstrap intervals: {drawn} were drawn again with replacement "
        f"{about.resamples:,} times, and the middle 95 % of the outcomes is shown."
        + (some if share < 1 else "")
    )
