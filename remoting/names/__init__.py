"""Where are topics and brokers? What a name server answers about them.

Routes, clusters, lists of topics, values under keys: an answer is a pure function of the request
and of what is known. Brokers of others may register, if the operator wants it.
"""
