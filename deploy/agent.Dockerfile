# An agent in a container of its own: examples/grpc_agent/python, which is not of the gateway and
# knows of it the contract alone (proto/agent.binpb).
#
#     docker build -f deploy/agent.Dockerfile -t a2a-agent:0.1.0 .

ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY requirements/agent.lock requirements/agent-build.lock requirements/
RUN python -m venv --without-pip /opt/agent && \
    python -m pip --python /opt/agent/bin/python install --quiet \
        --require-hashes --no-deps -r requirements/agent.lock
RUN python -m venv --without-pip /opt/build && \
    python -m pip --python /opt/build/bin/python install --quiet \
        --require-hashes --no-deps -r requirements/agent-build.lock
COPY proto/agent.binpb proto/
COPY examples/grpc_agent/python/agent.py /app/
RUN /opt/build/bin/python -m grpc_tools.protoc --descriptor_set_in=proto/agent.binpb \
        --python_out=/app --grpc_python_out=/app a2a.proto agent.proto

FROM python:${PYTHON}-slim
COPY --from=build /opt/agent /opt/agent
COPY --from=build /app /app
RUN mkdir -p /run/a2a && chmod 0700 /run/a2a && chown 10001:10001 /run/a2a
ENV PATH=/opt/agent/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /app
USER 10001:10001
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "agent.py"]
CMD ["unix:/run/a2a/agent.sock"]
