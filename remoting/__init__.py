"""What do stock clients ask, and what do we answer? RocketMQ's remoting protocol.

It reads stores through `stores`, and knows neither Spark nor what writes an output.
"""
