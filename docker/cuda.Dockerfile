# kame on NVIDIA GPUs: torch contains its CUDA libraries; the host needs the driver and the NVIDIA container toolkit.
#   docker build -f docker/cuda.Dockerfile -t kame:cuda .
#   mkdir -p data; docker run --rm --user "$(id -u):$(id -g)" --gpus all -p 8998:8998 -v "$PWD/data:/data" kame:cuda \
#     serve --host 0.0.0.0 CHECKPOINT
FROM python:3.11-slim-bookworm

# On GPUs, moshi compiles norms, rotary embeddings and gating with torch.compile: Triton builds its launchers with gcc,
# and TorchInductor calls g++ for parts on the CPU.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ffmpeg g++ gcc libc6-dev libportaudio2 \
    && rm -rf /var/lib/apt/lists/*

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    OMP_WAIT_POLICY=PASSIVE \
    DO_NOT_TRACK=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    HF_HOME=/data/huggingface \
    KAME_CACHE=/data/cache

WORKDIR /opt/kame
COPY requirements/core.txt requirements/torch.txt requirements/
RUN pip install --no-deps --require-hashes -r requirements/core.txt \
    && pip install --no-warn-conflicts -r requirements/torch.txt

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
