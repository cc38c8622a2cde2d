# The command line for a machine without Python 3.11:
#   docker build -t kafkaseg .
#   docker run --rm -v /var/kafka-logs:/logs:ro kafkaseg ls /logs
# It runs as a user without rights of its own. --user "$(id -u):$(id -g)" reads what you may read.
FROM python:3.13-slim AS wheel
COPY . /src
RUN PIP_CONSTRAINT=/src/.ci/constraints.txt pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM python:3.13-slim
LABEL org.opencontainers.image.title="kafkaseg" \
      org.opencontainers.image.description="Reads Kafka's log segment directories without a broker" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=wheel /wheels /wheels
COPY .ci/constraints.txt /wheels/
# the last command compiles the kernels; a machine with another processor compiles them once more, in five seconds
RUN wheel="$(echo /wheels/*.whl)" \
    && pip install --no-cache-dir --constraint /wheels/constraints.txt \
       "${wheel}[aws,tiered,delta,iceberg,protobuf,report]" \
    && rm -r /wheels \
    && kafkaseg demo > /dev/null
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["kafkaseg"]
CMD ["--help"]
