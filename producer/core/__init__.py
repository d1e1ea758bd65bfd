"""The producer's core: what to send, to which broker, with which sequence, and what a response means.

It does no I/O, reads no clock and draws no randomness: events and the time come in, commands come out.
"""
