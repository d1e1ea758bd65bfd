"""The demo writes every flight that left New York in 2013 to a Kafka cluster that loses replies, connections, leaders and brokers.

`run_demo` sends the flights with a `Producer`, reads them back with confluent-kafka and counts. Two things make the result credible: an
independent consumer counts row numbers and digests, and the same faults duplicate records without idempotence.
"""

from typing import TYPE_CHECKING

from fencepost.demo.flights import FLIGHTS_TOTAL, Flight, FlightsMissing, load_flights
from fencepost.producer.foundations.lazy_names import lazy_names

if TYPE_CHECKING:
    from fencepost.demo.play import run_demo
    from fencepost.demo.report import Outcome, Report, as_json, as_table, problems

__all__ = ["FLIGHTS_TOTAL", "Flight", "FlightsMissing", "Outcome", "Report", "as_json", "as_table", "load_flights", "problems", "run_demo"]

# The command line names the demo in its help, also where confluent-kafka is missing.
_REPORT = ("Outcome", "Report", "as_json", "as_table", "problems")
__getattr__, __dir__ = lazy_names(globals(), {"fencepost.demo.play": ("run_demo",), "fencepost.demo.report": _REPORT})
