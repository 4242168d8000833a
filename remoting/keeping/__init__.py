"""What becomes of messages that consumers send back, if they are kept? A small log of our own.

It is a store as a broker has it: a commitlog and consume queues, in a directory beside the offsets.
So everything that reads a store reads it, and `reput.MessageStore` too.
"""
