# The page and the API. A server that others reach needs a token, of at least 16 letters and digits:
#   docker build -t roundwise .
#   docker run -p 127.0.0.1:8000:8000 -v roundwise:/data -e ROUNDWISE_TOKENS=manage=TOKEN roundwise
# compose.yaml adds PostgreSQL. Put a proxy with TLS in front, and name the server: ... roundwise serve --host 0.0.0.0 --name HOST
FROM python:3.11-slim AS build
COPY . /source
RUN python -m venv /opt/roundwise \
    && /opt/roundwise/bin/pip install --no-cache-dir -c /source/constraints.txt '/source[serve,frames]'

FROM python:3.11-slim
COPY --from=build /opt/roundwise /opt/roundwise
RUN useradd --create-home roundwise && mkdir /data && chown roundwise /data
ENV PATH=/opt/roundwise/bin:$PATH ROUNDWISE_STORAGE=sqlite:////data/roundwise.db
USER roundwise
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=5)"]
CMD ["roundwise", "serve", "--host", "0.0.0.0", "--name", "localhost"]
