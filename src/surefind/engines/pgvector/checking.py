"""Everything that is wrong with the rows of an index, in sentences."""

from surefind.engines.pgvector.driver import SQL, Connection, DatabaseError, Literal
from surefind.engines.pgvector.tables import Entry, count, named
from surefind.engines.pgvector.url import Place

DAMAGE = "XX00"  # how the SQLSTATEs of damaged data begin
FAULTS = {  # with the condition that a bad row satisfies
    "a vector of the wrong width": SQL("vector_dims(vector) <> {width}"),
    "a vector with numbers that are not finite": SQL("NOT vector_norm(vector) < 'Infinity'"),
    "a variance that is not positive and finite": SQL("NOT (var > 0 AND var < 'Infinity')"),
    "a digest that is not a sha256": SQL("digest !~ '^[0-9a-f]*$' OR length(digest) <> 64"),
    "metadata that are not fields with values": SQL("jsonb_typeof(fields) <> 'object'"),
}
WITHOUT_INDEX = """
SELECT set_config(name, 'off', true)
FROM unnest(ARRAY['enable_indexscan', 'enable_indexonlyscan', 'enable_bitmapscan']) AS name
"""
WITH_INDEX = """
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true)
"""
INVALID = """
SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = to_regclass(quote_ident(%s)) AND NOT (indisvalid AND indisready)
"""


def check(connection: Connection, place: Place, entry: Entry) -> list[str]:
    """Inside a transaction that sees one moment; reads every row."""
    try:
        return [*_bad_rows(connection, place, entry), *_bad_indexes(connection, place)]
    except DatabaseError as error:
        if error.sqlstate is None or not error.sqlstate.startswith(DAMAGE):
            raise
        return [f"The server found damage: {error.diag.message_primary}."]


def _bad_rows(connection: Connection, place: Place, entry: Entry) -> list[str]:
    width = Literal(entry.space.width)
    tests = [
        SQL("count(*) FILTER (WHERE {})").format(fault.format(width=width))
        for fault in FAULTS.values()
    ]
    connection.execute(WITHOUT_INDEX)
    statement = SQL("SELECT count(*), count(DISTINCT id), {tests} FROM {table}")
    (counts,) = connection.execute(named(statement, place, tests=SQL(", ").join(tests))).fetchall()
    rows, ids, *bad = counts
    wrong = [
        f"{_rows(number)} {fault}." for fault, number in zip(FAULTS, bad, strict=True) if number
    ]
    if ids < rows:
        wrong.append(f"{_rows(rows - ids)} an id that another row has.")
    noted = count(connection, place, entry.number)
    if noted != rows:
        wrong.append(f"{noted} rows are noted where {rows} are: compact the index.")
    connection.execute(WITH_INDEX)
    statement = SQL("SELECT count(*) FROM {table} WHERE id >= ''")
    ((by_index,),) = connection.execute(named(statement, place)).fetchall()
    if by_index != rows:
        wrong.append(f"The index over ids knows {by_index} of {rows} rows: REINDEX the table.")
    return wrong


def _bad_indexes(connection: Connection, place: Place) -> list[str]:
    invalid = connection.execute(INVALID, [place.table]).fetchall()
    return [f"The index {name} is not valid: REINDEX it." for (name,) in invalid]


def _rows(number: int) -> str:
    return "1 row has" if number == 1 else f"{number} rows have"
