"""What do the bytes of a request and of its answer say? Frames, headers, typed fields, JSON bodies.

Nothing here does I/O or keeps a connection: bytes come in, values go out, and the other way round.
"""
