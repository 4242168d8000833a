"""`reput prepare`: what every start would otherwise compile."""

from __future__ import annotations

from reput.streaming.endings.interruptions import tidying
from reput.streaming.settings.model.checks import PrepareOptions


def compile_kernels() -> None:
    """Compile the kernels of all commands, or load what was compiled."""
    from reput.remoting.server.compiled import compile_for_serving
    from reput.streaming.dispatch.warm import compile_kafka_kernels, load_kernels

    load_kernels()
    compile_kafka_kernels()
    compile_for_serving()


def prepare(options: PrepareOptions) -> None:  # noqa: ARG001 - there are none
    """Compile kernels and archive Spark's classes, once per installation: later starts are faster.

    Takes about half a minute and 150 MB in ~/.cache/reput. What is already there stays.

    Example: `reput prepare`
    """
    from reput.streaming.show.bars import busy
    from reput.streaming.show.console import OUT
    from reput.streaming.spark.archive import archive_classes

    with busy("compiling kernels"):
        compile_kernels()
    with tidying(), busy("archiving Spark's classes"):
        archive = archive_classes()
    OUT.print(f"kernels compiled, classes in {archive}", markup=False, soft_wrap=True)
