# A Kafka-compatible broker for tests: docker build -t fencepost . && docker run --rm -p 9092:9092 fencepost
# Other options replace those of the last line. In a network of containers, clients need the container's name:
# docker run --rm --network test --name kafka -v logs:/data fencepost --advertised-host kafka --port 9092 --data-dir /data
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN python -m venv /opt/fencepost && /opt/fencepost/bin/pip install --no-cache-dir .

FROM python:3.13-slim
COPY --from=build /opt/fencepost /opt/fencepost
RUN useradd --create-home fencepost && install -d -o fencepost /data
USER fencepost
WORKDIR /data
EXPOSE 9092
STOPSIGNAL SIGTERM
ENTRYPOINT ["/opt/fencepost/bin/fencepost", "broker", "--host", "0.0.0.0"]
CMD ["--advertised-host", "localhost", "--port", "9092"]
