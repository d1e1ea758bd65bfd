"""The Spark demo writes every flight that left New York in 2013 with Structured Streaming, with a guard and without one.

During the guarded run it kills an executor and then the driver with SIGKILL. The broker runs in its own process. `run_spark_demo` starts
the processes, kills them, and counts with confluent-kafka. Only `driver` imports pyspark; it runs in its own process. The demo needs
`fencepost[spark,demo]` and a Java.
"""

from fencepost.spark_demo.play import run_spark_demo
from fencepost.spark_demo.report import Outcome, Report, as_table, problems

__all__ = ["Outcome", "Report", "as_table", "problems", "run_spark_demo"]
