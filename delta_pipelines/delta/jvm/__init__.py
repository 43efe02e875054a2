"""The bridge to the JVM: calls, signatures, sessions, errors."""
