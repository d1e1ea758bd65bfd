"""Transactions on top of the producer: the door, with nothing behind it yet.

Begin, commit and abort, offsets inside a transaction and two-phase commit with tokens will be reached from here. Until they are, this
package promises nothing: it has no name to import, so that no program can believe that it writes transactionally.
"""
