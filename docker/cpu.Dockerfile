# kame on the CPU: datasets, small front-ends, the server. From the root of a checkout:
#   docker build -f docker/cpu.Dockerfile --build-arg TORCH_ARGS="--index-url INDEX-OF-CPU-BUILDS" -t kame:cpu .
# TORCH_ARGS are arguments of pip for torch; without an index of CPU builds, pip installs a CUDA build, which is large.
#   mkdir -p data; docker run --rm --user "$(id -u):$(id -g)" -v "$PWD/data:/data" kame:cpu preview
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends ffmpeg libportaudio2 \
    && rm -rf /var/lib/apt/lists/*

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    OMP_WAIT_POLICY=PASSIVE \
    DO_NOT_TRACK=1 \
    HF_HOME=/data/huggingface \
    KAME_CACHE=/data/cache

ARG TORCH_ARGS=""
WORKDIR /opt/kame
COPY requirements/core.txt requirements/torch.txt requirements/
RUN pip install --no-deps --require-hashes -r requirements/core.txt \
    && pip install --no-warn-conflicts ${TORCH_ARGS} -r requirements/torch.txt

COPY pyproject.toml README.md LICENSE ./
COPY data_schemas data_schemas
COPY spoken spoken
COPY backends backends
COPY pipelines pipelines
COPY kame_model kame_model
COPY flows flows
COPY dashboard dashboard
COPY examples examples
RUN pip install --no-deps --no-build-isolation --no-index -e . \
    && useradd --create-home --uid 1000 kame \
    && mkdir /data \
    && chown kame:kame /data

USER kame
WORKDIR /data
VOLUME /data
EXPOSE 8998
ENTRYPOINT ["kame"]
CMD ["--help"]
