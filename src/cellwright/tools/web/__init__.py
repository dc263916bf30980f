"""What is on the web, under the network policy: addresses, visits, the cache, and bodies read apart."""
