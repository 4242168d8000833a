"""Where stores are written: in the job's driver, or by a writer process beside an executor.

On executors, a batch is one Spark job with a task a store. The task carries an order to the store's
writer process on its host (`streaming.writers.process`), starts it if there is none, waits and
carries the answer back: the driver handles an order and an answer a store, whatever is dispatched.
Spark may run such a task twice, or somewhere else: an order says how far, not how much, and the
lock of the output lets one writer in. `docs/adr/0013-where-stores-are-written.md` has the reasons.
"""

from __future__ import annotations

import pickle
import time
import uuid
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.formats.errors import ReputError
from reput.streaming.endings.failures import cause_of
from reput.streaming.writers.counted import Counted
from reput.streaming.writers.protocol import (
    CLOSE,
    DISPATCH,
    SILENCE_SECONDS,
    TEND,
    Answer,
    Order,
    Spec,
    answer_of,
    error_of,
)
from reput.streaming.writers.task import Carried, Errand, carry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark import SparkContext

    from reput.streaming.dispatch.dispatcher import Batch
    from reput.streaming.settings.config import FlushPolicy, StoreConfig
    from reput.streaming.writers.job_options import JobOptions

# A writer is spoken to this often while its store has nothing new.
TEND_SECONDS = SILENCE_SECONDS / 6
# A job that was killed a moment ago leaves writers that are about to end.
_OPEN_PATIENCE = 10.0
# A writer on a host that Spark has given up ends by silence.
_MOVE_PATIENCE = SILENCE_SECONDS + 15.0


class UnreachableError(ReputError):
    """Spark has ended, or could not run the tasks that carry orders to writers."""


class Outcome(NamedTuple):
    """What came back from a store's writer: the batches since the last time, and an error."""

    store: str
    batches: list[Batch]
    error: Exception | None


@dataclass
class _Known:
    """What the driver knows of a store's writer."""

    spec: Spec
    host: str = ""
    wanted: int = -1
    answer: Answer | None = None
    counted: Counted = field(default_factory=Counted)
    heard_at: float = field(default_factory=time.monotonic)

    @property
    def seen(self) -> tuple[str, int]:
        """Return what `Order.seen` says."""
        if self.answer is None:
            return "", 0
        return self.answer["incarnation"], self.answer["first"] + len(self.answer["batches"])


class ExecutorWriters:
    """The driver's side: all stores' writers, wherever they are."""

    def __init__(
        self,
        context: SparkContext,
        configs: Iterable[tuple[StoreConfig, FlushPolicy]],
        options: JobOptions,
    ) -> None:
        """Remember what the writers are for; `open` starts them."""
        self._context = context
        self._cpu_seconds_before = 0.0
        job = f"{context.applicationId}-{uuid.uuid4().hex}"
        self._stores = {
            config.name: _Known(_spec(job, config, flush, options)) for config, flush in configs
        }

    def open(self) -> list[Outcome]:
        """Open all outputs: what is wrong with one is said before the first batch."""
        return self._send(dict.fromkeys(self._stores, TEND), _OPEN_PATIENCE)

    def end(self, store: str) -> int:
        """Return where an output stands; -1 for a new one."""
        answer = self._stores[store].answer
        return answer["end"] if answer else -1

    def state(self, store: str) -> dict[str, Any] | None:
        """Return the fields of a `store_metrics.State`, as last heard."""
        answer = self._stores[store].answer
        return answer["state"] if answer else None

    @property
    def cpu_seconds(self) -> float:
        """Return the processor time of all writers there have been, as last heard."""
        present = (known.answer["cpu_seconds"] for known in self._stores.values() if known.answer)
        return self._cpu_seconds_before + sum(present)

    def dispatch(self, ends: Mapping[str, int]) -> list[Outcome]:
        """Have every store dispatched up to its end, all at once as far as there are cores."""
        for name, end in ends.items():
            self._stores[name].wanted = end
        quiet = dict.fromkeys(self._due(), TEND)
        return self._send(quiet | dict.fromkeys(ends, DISPATCH), _MOVE_PATIENCE)

    def tend(self) -> list[Outcome]:
        """Speak to the writers that have not been spoken to for a while; most often to none."""
        return self._send(dict.fromkeys(self._due(), TEND), _MOVE_PATIENCE)

    def close(self, *, has_failed: bool) -> list[Outcome]:
        """Have all outputs closed in order.

        Args:
            has_failed: the job ends by an error: a writer that is gone is not made up for then.
        """
        opened = [name for name, known in self._stores.items() if known.answer is not None]
        return self._send(dict.fromkeys(opened, CLOSE), _MOVE_PATIENCE, starts=not has_failed)

    def _due(self) -> list[str]:
        now = time.monotonic()
        return [n for n, known in self._stores.items() if now - known.heard_at > TEND_SECONDS]

    def _send(
        self, kinds: Mapping[str, str], patience: float, *, starts: bool = True
    ) -> list[Outcome]:
        """Run one Spark job that carries the orders, and return what came back.

        Raises:
            ReputError: Spark could not.
        """
        errands = []
        for name, kind in kinds.items():
            known = self._stores[name]
            order = Order(
                kind=kind,
                end=known.wanted,
                starts=starts,
                patience=patience,
                seen=known.seen,
                counted=(known.counted.end, known.counted.messages),
                executor=0,
            )
            errands.append(Errand(known.spec, order, known.host))
        carried = _run(self._context, errands) if errands else []
        return [self._take(name, each) for name, each in zip(kinds, carried, strict=True)]

    def _take(self, name: str, carried: Carried) -> Outcome:
        known = self._stores[name]
        known.heard_at = time.monotonic()
        known.host = carried.host
        if carried.failure is not None:
            return Outcome(name, [], error_of(carried.failure))
        if not carried.answer:
            return Outcome(name, [], None)
        answer = answer_of(carried.answer)
        before = known.answer
        if before is not None and before["incarnation"] != answer["incarnation"]:
            self._cpu_seconds_before += before["cpu_seconds"]
        known.answer = answer
        failure, batches = answer["failure"], answer["batches"]
        if answer["state"] is not None:
            progress = answer["state"]["progress"]
            batches = known.counted.take(batches, progress.messages, progress.cuts)
        return Outcome(name, batches, error_of(failure) if failure else None)


def _spec(job: str, config: StoreConfig, flush: FlushPolicy, options: JobOptions) -> Spec:
    return Spec(
        job=job,
        name=config.name,
        path=str(config.path.absolute()),
        output=str(config.output.absolute()),
        version=config.settings.version.family,
        properties=dict(config.properties),
        in_place=config.in_place,
        commitlog=list(config.settings.commitlog_told),
        threads=options.threads,
        fail_on_data_loss=options.fail_on_data_loss,
        skips_corrupt=options.skips_corrupt,
        removes_expired=options.removes_expired,
        only_flushed=options.only_flushed,
        flush=asdict(flush),
        kafka=asdict(config.kafka) if config.kafka is not None else None,
        drains_kafka=options.available_now,
    )


def _run(context: SparkContext, errands: Sequence[Errand]) -> list[Carried]:
    """Run a task an errand, on the host that it names if that has room.

    Raises:
        UnreachableError: Spark could not.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark import RDD  # noqa: PLC0415
    from pyspark.serializers import CPickleSerializer  # noqa: PLC0415

    # Python's own `parallelize` knows no preferred hosts; Scala's `makeRDD` does.
    jvm: Any = context._jvm  # noqa: SLF001
    convert = jvm.scala.jdk.javaapi.CollectionConverters
    rows = jvm.java.util.ArrayList()
    try:
        for errand in errands:
            hosts = jvm.java.util.ArrayList()
            if errand.host:
                hosts.add(errand.host)
            raw = bytearray(pickle.dumps(tuple(errand)))
            rows.add(jvm.scala.Tuple2(raw, convert.asScala(hosts).toSeq()))
        tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
        java: Any = context._jsc.sc()  # noqa: SLF001
        located = java.makeRDD(convert.asScala(rows).toSeq(), tag).toJavaRDD()
        tasks: RDD[Any] = RDD(located, context, CPickleSerializer())
        carried: list[Carried] = tasks.map(carry).collect()
    except (Py4JError, OSError) as error:
        # A JVM that is gone is an OSError of its connection, and no matter of files.
        text = cause_of(str(error))
        raise UnreachableError(f"Spark could not reach the stores' writers: {text}") from error
    return carried
