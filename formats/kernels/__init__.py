"""How is it computed fast? Compiled twins of what `formats.rocketmq` and `formats.java` say."""
