"""The official MCP conformance suite, run against our server object with the suite's fixtures added."""
