"""JSON-RPC 2.0 and ProtoJSON, for every door that carries them (A2A 5.5, 9). No I/O."""
