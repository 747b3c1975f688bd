"""What `surefind index` is asked for: which images, and the index that is made or continued."""

from dataclasses import dataclass, replace
from pathlib import Path

from surefind.cli.parts import PARTS, part_of
from surefind.encoders.device import own_device
from surefind.encoders.encoding import ImageEncoder
from surefind.encoders.onnx.opening import RUNTIMES, open_encoder
from surefind.engines.engine import KINDS
from surefind.engines.opening import SCHEMES, is_url, without_password
from surefind.errors import InvalidArgument, InvalidFile
from surefind.functional.ranking import RANKINGS
from surefind.images.catalog import Catalog
from surefind.search.folder import EMBEDDED, IndexFolder
from surefind.search.index import DEFAULT_RANKING, DUPLICATES, Index
from surefind.validation import check_choice


@dataclass(frozen=True)
class Request:
    """The arguments of the command."""

    model: Path
    images: str
    output: Path
    part: str = "all"
    engine: str | None = None
    kind: str = "auto"
    ranking: str | None = None
    duplicates: str = "skip"
    replace: bool = False
    prefix: str = ""
    remove: tuple[str, ...] = ()
    max_bad_share: float = 0.05
    compact: bool = True
    runtime: str = "torch"

    def __post_init__(self) -> None:
        """Before anything is made."""
        check_choice("--kind", self.kind, ("auto", *KINDS))
        check_choice("--part", self.part, PARTS)
        check_choice("--runtime", self.runtime, RUNTIMES)
        check_choice("--duplicates", self.duplicates, DUPLICATES)
        if self.ranking is not None:
            check_choice("--ranking", self.ranking, RANKINGS)
        if self.engine is not None:
            known = tuple(name for name in SCHEMES if is_url(self.engine) != (name == EMBEDDED))
            check_choice("--engine", self.engine.partition("://")[0], known)
        if not 0 <= self.max_bad_share <= 1:
            raise InvalidArgument(
                "--max-bad-share",
                expected="a share in [0, 1]",
                got=str(self.max_bad_share),
                fix="0.05 allows one bad image in twenty",
            )


def open_index(request: Request) -> tuple[Catalog, Index]:
    """What is to be added, and the index: made, or continued."""
    catalog = part_of(request.images, request.part)
    catalog = replace(catalog, ids=tuple(request.prefix + name for name in catalog.ids))
    left_out = set(request.remove)
    catalog = catalog.select([row for row, id_ in enumerate(catalog.ids) if id_ not in left_out])
    encoder = open_encoder(request.model, request.runtime, device=own_device())
    if IndexFolder(request.output).exists():
        return catalog, _continue(request, encoder)
    refuse_other_folders(request.output)
    return catalog, Index.create(
        request.output,
        encoder,
        engine=request.engine or EMBEDDED,
        kind=request.kind,
        ranking=request.ranking or DEFAULT_RANKING,
    )


def _continue(request: Request, encoder: ImageEncoder) -> Index:
    written = IndexFolder(request.output).read()
    if request.engine is not None and without_password(request.engine) != written:
        raise InvalidArgument(
            "--engine",
            expected=f"{written}, where {request.output} has its vectors",
            got=without_password(request.engine),
            fix="leave it out, or name another folder with -o",
        )
    index = Index.open(request.output, engine=request.engine, encoder=encoder)
    if request.ranking not in (None, index.space.ranking):
        made = index.space.ranking
        index.close()
        raise InvalidArgument(
            "--ranking",
            expected=f"{made}, as {request.output} was made",
            got=str(request.ranking),
            fix="leave it out: a search can ask for either ranking",
        )
    return index


def refuse_other_folders(output: Path) -> None:
    """An index is not made among files of another kind, such as the images themselves."""
    folder = IndexFolder(output)
    begun = {folder.model.name, Path(folder.place(EMBEDDED)).name}  # by a run that was killed
    try:
        others = {path.name for path in output.iterdir() if path.name[0] != "."} - begun
    except OSError:
        return  # not there; what else may be wrong is told when the folder is made
    if others:
        raise InvalidFile(
            f"{output} is no index, and is not empty", fix="name a new folder with -o"
        )
