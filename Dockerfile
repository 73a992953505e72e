# docker build -t aded . && docker run -p 7860:7860 aded
# docker run --gpus all -p 7860:7860 aded        the same image on a CUDA GPU
# docker run --user 2000 --read-only -p 7860:7860 aded        as any user, on a read-only file system
#
# PyPI's torch for Linux contains CUDA and works for both. For a smaller image without it, name an index with CPU builds:
# docker build --build-arg PIP_EXTRA_INDEX_URL=... --build-arg TORCH="torch==2.11.0+cpu" -t aded-cpu .
FROM python:3.12-slim

ARG PIP_EXTRA_INDEX_URL=""
ARG TORCH=""

# Nothing is stored in a home folder, which other users (docker run --user) may not be allowed to read.
RUN useradd --create-home --uid 1000 user && install -d -o user /var/cache/aded
WORKDIR /app
ENV PYTHONUNBUFFERED=1 \
    GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_ANALYTICS_ENABLED=False \
    ADED_CACHE=/var/cache/aded

COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt $TORCH

COPY . .
USER user
# The model is part of the image, so a container needs no network.
RUN python -m aded fetch

EXPOSE 7860
HEALTHCHECK --start-period=60s CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/healthz', timeout=5)"
CMD ["python", "app.py", "--no-browser"]
