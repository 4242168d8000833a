"""A store that grows, is dispatched, and is served."""

from __future__ import annotations

from reput.formats.rocketmq.encode import Message
from reput.remoting.holding.pulls import Pulls
from reput.remoting.wire import fields
from reput.remoting.wire.command import Command
from reput.stores.query.message_store import MessageStore
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.channels import Clock, KeptChannel
from tests.builders.served import NOW, request, served
from tests.builders.stores import Log, config_of


class Live:
    """A store that grows, is dispatched, and is served."""

    def __init__(self, directory, **conf):
        self.log = Log()
        self.directory = directory
        self.conf = conf
        self.counts = {}
        for topic in ("first", "t"):
            self.append(topic)
        self.dispatcher = None
        self.dispatch()
        config = self.dispatcher.config
        self.store = MessageStore.open(config.path, config.output, config.settings)
        self.clock = Clock()
        self.channel = KeptChannel()
        self.served = served(self.store)
        self.served.topics["new"] = self.served.topics["t"]
        self.pulls = Pulls(self.served, self.clock)
        self.opaque = 100
        self.followed_at = self.clock.now

    def append(self, topic="t", queue=0, size=4, count=1, **properties):
        for _ in range(count):
            number = self.counts.get((topic, queue), 0)
            self.counts[topic, queue] = number + 1
            self.log.append(
                Message(topic, bytes(size), properties, queue, number, store_timestamp=NOW + number)
            )

    def write(self):
        return self.log.write(self.directory / "store", ahead=1)

    def dispatch(self):
        self.write()
        if self.dispatcher is None:
            output = self.directory / "out"
            config = config_of(self.directory / "store", output, "5.5", **self.conf)
            self.dispatcher = StoreDispatcher(config)
        self.dispatcher.dispatch(self.log.end)

    def pull(self, offset, flags=6, code=11, **said):
        header = request(offset, flags=flags, **said)
        self.opaque += 1
        command = Command(code, self.opaque, fields=fields.write(header))
        return self.pulls.pull(command, self.channel)

    def look(self, times=1):
        for _ in range(times):
            self.clock.now += 0.001
            if self.clock.now >= self.followed_at + 1:
                self.followed_at = self.clock.now
                self.pulls.look_at_files()
            self.pulls.look()
        return len(self.channel.sent)

    def bodies(self):
        return [body for _, body in self.channel.sent]
