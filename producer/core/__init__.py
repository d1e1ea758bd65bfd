"""The producer's core: what to send, to whom, under which sequence, and what an answer means.

It does no I/O, reads no clock and draws no randomness: events and the time come in, commands come out.
"""
