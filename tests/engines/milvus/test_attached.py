"""Collections that another program filled: found and judged as our own, and never changed."""

import numpy as np
import pytest
import torch
from galleries import clustered_embeddings

import surefind as sf
from surefind.engines.base import EngineError
from surefind.engines.filters import Where
from surefind.engines.registry import attached_url, open_engine

DIM = 6
MEANS = clustered_embeddings(288, DIM, seed=0, classes=24)
LABELS = [f"class {n % 24}" for n in range(288)]
pytestmark = pytest.mark.milvus


def rows(number) -> list[dict]:
    return [
        {"sku": number(n), "clip": mean, "kind": label, "price": n / 10, "stock": n % 7}
        | {"sold": n % 2 == 0, "extra": {"a": 1}}
        for n, (mean, label) in enumerate(zip(MEANS.mean.tolist(), LABELS, strict=True))
    ]


@pytest.fixture(scope="module", params=["l2", "cosine"])
def shop(milvus, request):
    """URL of a collection, with ids that are numbers or texts."""
    from pymilvus import DataType, MilvusClient

    host, metric = milvus.url.partition("@")[2].partition("/")[0], request.param
    client = MilvusClient(f"http://{host}", user=milvus.user, password=milvus.password)
    schema = MilvusClient.create_schema(enable_dynamic_field=False)
    numbers = metric == "l2"
    id_type = {"datatype": DataType.INT64} if numbers else {"datatype": DataType.VARCHAR}
    schema.add_field("sku", **id_type, max_length=20, is_primary=True)
    schema.add_field("clip", DataType.FLOAT_VECTOR, dim=DIM)
    schema.add_field("kind", DataType.VARCHAR, max_length=20)
    schema.add_field("price", DataType.FLOAT)
    schema.add_field("stock", DataType.INT32)
    schema.add_field("sold", DataType.BOOL)
    schema.add_field("extra", DataType.JSON)
    index = MilvusClient.prepare_index_params("clip", index_type="FLAT", metric_type=metric.upper(), index_name="own")
    client.create_collection(f"shop_{metric}", schema=schema, index_params=index)
    client.insert(f"shop_{metric}", rows(int if numbers else str))
    yield f"{milvus.url.removesuffix('default')}shop_{metric}", metric, client
    client.close()


def test_it_is_searched_calibrated_and_stays_as_it_was(shop, tmp_path):
    url, metric, client = shop
    name = url.rpartition("/")[2]
    before = client.describe_collection(name)
    columns = {"vector": "clip", "id": "sku", "label": "kind", "metric": metric}
    with sf.Index.attach(tmp_path / "index", url, **columns) as index:
        assert len(index) == 288
        index.calibrate()
    with sf.Index.open(tmp_path / "index", engine=url) as again:
        mean = MEANS.mean[:2] if metric == "l2" else torch.nn.functional.normalize(MEANS.mean[:2])
        found = again.search(sf.Gaussians(mean, MEANS.var[:2]), k=3)
        assert [its.label for its in found] == LABELS[:2]
        assert [its.hits[0].id for its in found] == ["0", "1"]
        assert found[0].hits[0].distance == pytest.approx(0, abs=1e-5)
        assert all(its.verdict and its.confidence is not None for its in found)
        for change in (lambda: again.remove(["3"]), lambda: again.add_embeddings(MEANS[:1], ["n"])):
            with pytest.raises(EngineError, match="only read"):
                change()
    assert client.describe_collection(name) == before
    assert client.query(name, filter="stock >= 0", output_fields=["count(*)"])[0]["count(*)"] == 288


def test_rows_and_conditions_are_those_of_its_fields(shop):
    url, metric, _ = shop
    engine = open_engine(attached_url(url, vector="clip", id="sku", label="kind", metric=metric))
    found = engine.find(["17", "3", "nobody", "999"])
    assert found.ids == ("17", "3")
    assert dict(found.metadata[0]) == {
        "label": "class 17", "kind": "class 17", "price": 1.7, "stock": 3, "sold": False
    }  # fmt: skip
    keys = np.concatenate([block.keys for block in engine.scan()])
    assert sorted(keys, key=int) == [str(n) for n in range(288)]
    metadata = engine.rows(keys).metadata
    for written in ("kind=class 3", "label != class 3", "price > 20", "stock=3", "stock < 2.5",
                    "sold=true", "sold != true", "stock in 1,2", "var<1"):  # fmt: skip
        where = Where.parse(written)
        assert engine.count(where) == sum(where.holds(facts, 1e-8) for facts in metadata) > 0
    for written in ("color=red", "kind=3", "extra=1"):
        with pytest.raises(sf.InvalidArgument, match="kind, label, price|expected a string"):
            engine.count(Where.parse(written))
    engine.close()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"vector": "clop"}, "did you mean 'clip'"),
        ({"vector": "kind"}, "a field of float vectors, got VARCHAR"),
        ({"id": "kind"}, "id: expected the primary key"),
        ({"label": "extra"}, "label: expected texts or numbers"),
        ({"metric": "ip"}, "metric: expected that of the field's index"),
    ],
)
def test_wrong_fields_are_said_to_be(shop, tmp_path, wrong, message):
    url, metric, _ = shop
    columns = {"vector": "clip", "id": "sku", "metric": metric, **wrong}
    with pytest.raises(sf.InvalidArgument, match=message):
        sf.Index.attach(tmp_path / "index", url, **columns)
