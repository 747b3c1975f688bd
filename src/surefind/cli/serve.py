"""surefind serve: serve an index over HTTP, with a web page."""

import os
import sys
from pathlib import Path
from typing import Annotated

from typer import Option

import surefind as sf
from surefind.cli.options import EngineOption, IndexArgument, PortOption, Runtime
from surefind.cli.output import is_quiet


def serve(
    folder: IndexArgument,
    host: Annotated[str, Option(help="Address to listen on; other than localhost only with a token.")] = "127.0.0.1",
    port: PortOption = 8000,
    token_file: Annotated[Path | None, Option(help="File with the token of clients; or set SUREFIND_TOKEN.")] = None,
    host_name: Annotated[list[str] | None, Option(help="Allowed host name, if behind a proxy. Repeatable.")] = None,
    pictures: Annotated[list[Path] | None, Option(help="Another folder to show pictures from. Repeatable.")] = None,
    samples: Annotated[Path | None, Option(help="Folder of sample queries. Default: indexed images.")] = None,
    report: Annotated[Path | None, Option(help="A report of surefind evaluate to show.")] = None,
    queue: Annotated[int, Option(min=1, help="Concurrent requests; more get status 503.")] = 64,
    workers: Annotated[int | None, Option(min=1, help="Encoding threads; default: cores.")] = None,
    batch: Annotated[int | None, Option(min=1, help="Images per batch; default: by model.")] = None,
    max_megabytes: Annotated[float | None, Option(min=0.001, help="Limit of an upload.")] = None,
    reload_seconds: Annotated[float, Option(min=0, help="Interval of checks for a newer index; 0: never.")] = 2.0,
    access_log: Annotated[bool, Option("--access-log", help="Log every request.")] = False,
    engine: EngineOption = None,
    runtime: Annotated[Runtime | None, Option(help="Runtime of the encoder. Default: that of the index.")] = None,
) -> None:
    """Serve a web page where you drop photos, and a JSON API. Ctrl-C ends it.

    Examples:
        surefind serve photos.index
        surefind serve photos.index --port 0 --samples queries/ --report report/
        surefind serve photos.index --host 0.0.0.0 --token-file token
    """
    import logging

    from surefind.search.folder import encoder_of
    from surefind.serve.security import check_bind, read_token
    from surefind.serve.server import serve as run
    from surefind.serve.service import Settings

    level = logging.ERROR if is_quiet() else logging.INFO
    logging.basicConfig(format="%(levelname)s %(message)s", level=level, stream=sys.stderr)
    token = read_token(token_file, os.environ)
    check_bind(host, token)  # before the index is opened, which may take long
    limits = {} if max_megabytes is None else {"max_bytes": round(max_megabytes * 2**20)}
    settings = Settings(
        host=host,
        port=port,
        token=token,
        host_names=tuple(host_name or ()),
        queue=queue,
        workers=workers,
        batch=batch,
        reload_seconds=reload_seconds,
        pictures=tuple(pictures or ()),
        samples=samples,
        report=report,
        access_log=access_log,
        **limits,
    )
    encoder = None if runtime is None else encoder_of(folder, runtime)
    index = sf.Index.open(folder, engine=engine, encoder=encoder)
    for warning in index.warnings:
        logging.warning(warning)
    start = f"{folder}: {len(index):,} images at"
    run(index, settings, on_ready=lambda at: print(f"{start} {at} (Ctrl-C ends it)", flush=True))
