# Cellwright in a container, for macOS, Windows and servers: docs/guides/containers.md.
# Debian's stable release pins what apt installs; requirements/ pins the rest by hash.
FROM debian:trixie-slim AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements/tools.txt requirements/all.txt requirements/dev.txt requirements/
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/tools.txt \
    && /opt/build/bin/uv venv --python /usr/bin/python3 /opt/cellwright
COPY pyproject.toml README.md LICENSE ./
COPY src src
ARG EXTRAS=calculator,charts,data,export,fetch,files,images,sql,web
RUN /opt/build/bin/uv pip install --python /opt/cellwright/bin/python --no-cache --compile-bytecode \
    --constraint requirements/all.txt --build-constraint requirements/dev.txt ".[${EXTRAS}]"

FROM debian:trixie-slim
LABEL org.opencontainers.image.source="https://github.com/cellwright/cellwright" \
    org.opencontainers.image.licenses="BSD-3-Clause" \
    io.modelcontextprotocol.server.name="io.github.cellwright/cellwright"
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 user \
    && install --directory --owner=user --group=user /data /notebooks
COPY --from=build /opt/cellwright /opt/cellwright
# The names under which a published port is addressed from outside.
ENV PATH=/opt/cellwright/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/home/user \
    CELLWRIGHT_STORAGE=/data \
    CELLWRIGHT_ALLOWED_HOSTS="localhost 127.0.0.1"
WORKDIR /notebooks
# `user`; a number is the same to every engine.
USER 1000
VOLUME ["/data", "/notebooks"]
EXPOSE 8765
ENTRYPOINT ["cellwright"]
CMD ["serve", "--host", "0.0.0.0"]
