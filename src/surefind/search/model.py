"""The model of an index: loaded from its folder, and never mistaken for another."""

from surefind.encoders.encoder import Encoder
from surefind.errors import InvalidArgument, InvalidFile
from surefind.search.folder import IndexFolder


def load_encoder(folder: IndexFolder, fingerprint: str) -> Encoder:
    """The model in the folder, if it is the one that made the rows."""
    if not folder.model.exists():
        raise InvalidFile(
            f"{folder.path} has no model: its embeddings came from elsewhere",
            fix="search with embeddings, or open it with encoder=...",
        )
    encoder = Encoder.load(folder.model)
    check_same_model(encoder.fingerprint, fingerprint, whose=str(folder.model))
    return encoder


def check_same_model(fingerprint: str, of_the_index: str, *, whose: str) -> None:
    """Refuse what another model made."""
    if fingerprint != of_the_index:
        raise InvalidArgument(
            "model",
            expected=f"the one that made the index, {of_the_index[:12]}",
            got=f"{fingerprint[:12]} ({whose})",
            fix="use that model, or make an index with this one",
        )
