"""Everything at once, in groups."""

from collections.abc import Iterable, Mapping, Sequence

from surefind.doctor.engines import engines
from surefind.doctor.extras import extras
from surefind.doctor.finding import Finding
from surefind.doctor.machine import machine
from surefind.doctor.packages import packages
from surefind.doctor.places import places

Groups = dict[str, list[Finding]]


def examine(urls: Sequence[str] = ()) -> Groups:
    """Packages first: a broken one explains what is broken after it."""
    return {
        "packages": packages(),
        "machine": machine(),
        "places": places(),
        "engines": engines(urls),
        "extras": extras(),
    }


def is_broken(groups: Mapping[str, Iterable[Finding]]) -> bool:
    """Whether something that is needed, or was asked about, does not work."""
    return any(finding.state == "broken" for found in groups.values() for finding in found)
