"""A plugin for Cellwright: a module for each kind."""
