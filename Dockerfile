# docker build -t aded . && docker run -p 7860:7860 aded
# docker run --gpus all -p 7860:7860 aded        the same image on a CUDA card
#
# PyPI's torch for Linux brings CUDA along and serves both. For a small image without it, name an index that has CPU builds:
# docker build --build-arg PIP_EXTRA_INDEX_URL=... --build-arg TORCH="torch==2.11.0+cpu" -t aded-cpu .
FROM python:3.12-slim

ARG PIP_EXTRA_INDEX_URL=""
ARG TORCH=""

RUN useradd --create-home --uid 1000 user
USER user
WORKDIR /home/user/app
ENV PATH=/home/user/.local/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_ANALYTICS_ENABLED=False \
    ADED_CACHE=/home/user/cache

COPY --chown=user requirements.txt .
RUN pip install --user --no-cache-dir -r requirements.txt $TORCH

COPY --chown=user . .
# The model is part of the image: a container needs no network.
RUN python -m aded fetch

EXPOSE 7860
HEALTHCHECK --start-period=60s CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/healthz', timeout=5)"
CMD ["python", "app.py", "--no-browser"]
