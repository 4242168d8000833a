# The job and what it needs to run, and nothing that builds. helm/image.sh builds and tries it;
# docs/kubernetes.md says how it is used.
#
# For a release name the base by digest: --build-arg BASE=docker.io/library/debian@sha256:…
ARG BASE=docker.io/library/debian:12.12-slim

FROM ${BASE} AS runtime
SHELL ["/bin/sh", "-eu", "-c"]
# Debian's stable release holds versions still but for security, which a rebuild is to have.
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        libnss-wrapper openjdk-17-jre-headless python3 tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*
ENV PATH=/opt/reput/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/opt/reput/home \
    SPARK_HOME=/opt/reput/venv/lib/python3.11/site-packages/pyspark \
    PYSPARK_PYTHON=/opt/reput/venv/bin/python \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

FROM runtime AS builder
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY helm/image/requirements.txt helm/image/build-requirements.txt ./
RUN python3 -m venv pip \
    && python3 -m venv --without-pip /opt/reput/venv \
    && pip/bin/python -m pip install --no-cache-dir --require-hashes -r build-requirements.txt \
    && pip/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --require-hashes \
        --wheel-dir wheels -r requirements.txt \
    && pip/bin/python -m pip --python /opt/reput/venv/bin/python install --no-cache-dir --no-deps \
        --no-index wheels/*.whl \
    && rm -rf wheels /opt/reput/venv/lib/python3.11/site-packages/pyspark/examples
COPY pyproject.toml README.md LICENSE source/
COPY reput source/reput/
COPY formats source/formats/
COPY stores source/stores/
COPY checkpoints source/checkpoints/
COPY sinks source/sinks/
COPY remoting source/remoting/
COPY streaming source/streaming/
RUN pip/bin/python -m pip wheel --no-cache-dir --no-deps --no-index --no-build-isolation \
        --wheel-dir wheels ./source \
    && pip/bin/python -m pip --python /opt/reput/venv/bin/python install --no-cache-dir --no-deps wheels/*.whl
COPY --chmod=755 helm/image/entrypoint.sh /opt/reput/
COPY helm/image/run.py helm/image/healthcheck.py helm/image/precompile.py /opt/reput/
# Times of files in whole seconds, as layers keep them: the kernels and the class archive are
# bound to them.
RUN mkdir -p /opt/reput/home/.cache/reput /opt/reput/kernels \
    && python -m compileall -q --invalidation-mode unchecked-hash /opt/reput/venv \
    && find /opt/reput -exec touch -h -d @1700000000 {} + \
    && case $(uname -m) in x86_64) cpu=haswell ;; *) cpu=generic ;; esac \
    && NUMBA_CPU_NAME=$cpu NUMBA_CACHE_DIR=/opt/reput/kernels python /opt/reput/precompile.py \
    && rm /opt/reput/precompile.py

FROM runtime
ARG UID=3000
ARG GID=3000
RUN groupadd --gid "${GID}" reput \
    && useradd --uid "${UID}" --gid "${GID}" --home-dir /opt/reput/home --no-create-home \
        --shell /usr/sbin/nologin reput
COPY --from=builder /opt/reput /opt/reput
COPY helm/image/sbom.py /tmp/
RUN python /tmp/sbom.py > /opt/reput/sbom.cdx.json && rm /tmp/sbom.py
USER ${UID}:${GID}
WORKDIR /tmp
EXPOSE 9464
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s --retries=3 \
    CMD ["python", "/opt/reput/healthcheck.py"]
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/reput/entrypoint.sh"]
CMD ["--help"]
