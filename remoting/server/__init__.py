"""Which connection does what, when? Ports, connections, and the way of a request to its room.

One event loop has all state of a broker: rooms need no locks. What would stall it, such as pages
that are not in memory, is done on threads.
"""
