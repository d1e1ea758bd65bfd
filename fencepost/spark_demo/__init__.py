"""The Spark demo: every flight that left New York in 2013 through Structured Streaming into a broker of its own process, while an executor
and then the driver are killed with SIGKILL; and the same without a guard.

`run_spark_demo` starts everything, kills, and counts with confluent-kafka. Nothing here imports pyspark but `driver`, which runs in a
process of its own; what it needs is `fencepost[spark,demo]` and a Java.
"""

from fencepost.spark_demo.play import run_spark_demo
from fencepost.spark_demo.report import Outcome, Report, as_table, problems

__all__ = ["Outcome", "Report", "as_table", "problems", "run_spark_demo"]
