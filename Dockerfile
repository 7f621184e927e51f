# The Kinbin server as a container image. `make image` builds it; CONTRIBUTING.md says how without an engine.
#
#   docker run --read-only --tmpfs /tmp --volume kinbin:/data --publish 127.0.0.1:8080:8080 --env KINBIN_API_KEY kinbin
#
# The server listens on 0.0.0.0 inside the container, so it refuses to start without a key: set KINBIN_API_KEY,
# or KINBIN_INSECURE=true to say that nobody but you reaches the port (without a key it answers to loopback names
# only; KINBIN_ALLOWED_HOSTS=kinbin lets other containers reach it as http://kinbin:8080). Every other setting is a variable too.
# Run one container per volume: KINBIN_WORKERS says how many processes share its files.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm

# ---------------------------------------------------------------------------------------- builder
FROM ${PYTHON_IMAGE} AS builder

WORKDIR /build
RUN python3 -m venv /opt/kinbin
ENV PATH=/opt/kinbin/bin:$PATH

# Wheels with the hashes of the lock, and nothing else.
COPY requirements.lock ./
RUN pip install --no-cache-dir --disable-pip-version-check --only-binary :all: --no-deps --require-hashes --requirement requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY index index
COPY service service
COPY cluster cluster
COPY clients/python clients/python
RUN pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps --no-build-isolation . ./clients/python \
    && pip check \
    && pip uninstall --quiet --yes setuptools pip

# Machine code for every processor the image may meet, so that no start has to wait for the compiler.
RUN python3 -m kinbin.warmup --ship "$(python3 -c 'import kinbin; print(kinbin.__path__[0])')/_machine_code" \
    && chmod -R a+rX /opt/kinbin
COPY deploy/entrypoint deploy/healthcheck.py /opt/kinbin/bin/

# ----------------------------------------------------------------------------------------- server
FROM ${PYTHON_IMAGE}

LABEL org.opencontainers.image.title="Kinbin" \
      org.opencontainers.image.description="Near neighbours of histograms, counts and signed vectors, over REST" \
      org.opencontainers.image.licenses="Apache-2.0"

RUN groupadd --gid 10001 kinbin \
    && useradd --uid 10001 --gid kinbin --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin kinbin \
    && install --directory --owner=kinbin --group=kinbin --mode=0700 /data

COPY --from=builder /opt/kinbin /opt/kinbin

ENV PATH=/opt/kinbin/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    KINBIN_PORT=8080

# A fixed number, so that volumes keep their owner and Kubernetes can check runAsNonRoot.
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["python3", "/opt/kinbin/bin/healthcheck.py"]
ENTRYPOINT ["entrypoint"]
CMD ["kinbin", "serve", "--data", "/data", "--host", "0.0.0.0"]
