"""The core: one agent behind the canonical service `lf.a2a.v1.A2AService`."""
