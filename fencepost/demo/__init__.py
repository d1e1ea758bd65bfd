"""The demo: every flight that left New York in 2013, written to a Kafka cluster that loses replies, links, leaders and brokers meanwhile.

`run_demo` sends the flights with a `Producer`, reads them back with confluent-kafka and counts. What it shows is only worth something
because the counting is done by a consumer nobody here wrote, on row ids and digests, and because the same troubles are shown to double
records once idempotence is switched off.
"""

from fencepost.demo.flights import FLIGHTS_TOTAL, Flight, FlightsMissing, load_flights
from fencepost.demo.play import run_demo
from fencepost.demo.report import Outcome, Report, as_json, as_table, problems

__all__ = ["FLIGHTS_TOTAL", "Flight", "FlightsMissing", "Outcome", "Report", "as_json", "as_table", "load_flights", "problems", "run_demo"]
